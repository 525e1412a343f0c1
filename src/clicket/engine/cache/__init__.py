"""Equal calls.

- `caching`: the result cache: keys, stored results
- `single_flight`: of equal calls at the same time one runs, and the others get its result
- `kept_outcomes`: outcomes that are kept longer than their events
"""
