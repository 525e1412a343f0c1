"""What callers, people and other systems do with a call, of any process.

- `handles`: follow, wait, cancel
- `decisions`: approve, deny, answer or cancel a call of any process
- `external_results`: results that a token brings
- `resolutions`: settles calls whose outcome is unknown
- `nested_calls`: calls that a running call makes
"""
