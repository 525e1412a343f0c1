"""What callers, people and other systems do with a call, of any process.

- `handles`: follow, wait, cancel
- `repeated_calls`: a request under an id that a call has already
- `cancels`: cancel a call of any process
- `decisions`, `decision_checks`: approve, deny or answer a call of any process
- `external_results`: results that a token brings
- `resolutions`: settles calls whose outcome is unknown
- `nested_calls`: calls that a running call makes
"""
