"""What `rt.NAME` shows, one module for each name, all blind to each other.

- `artifacts`, `cache`: stored bytes; cached results
- `audit`: what people and policies decided
- `credentials`, `grants`: credentials of callers; approvals that answer later questions
- `memory`: what agents remember about a caller
- `notices`: what webhooks get
- `queue`, `workers`: calls that wait for a worker; workers and their states
- `report`, `series`, `spend`: reports; time series; spend and budgets
- `threads`, `tools`: threads with their last activity; listed tools
"""
