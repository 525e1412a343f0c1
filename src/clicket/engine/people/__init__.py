"""People who decide about calls.

- `approvers`, `grants`: which people may approve a call; approvals that also answer later questions
- `questions`: the event that asks
- `audit`: the audit log
"""
