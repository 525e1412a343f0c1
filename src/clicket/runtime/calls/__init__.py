"""What a program does with calls, beside making one.

- `batch`: several calls at once
- `again`, `effects`: a call run once more; what that repeats
- `undo`: takes back the effects of a call, or of a turn
- `history`: listed calls
- `bulk`: one action on many calls
- `approvals`: approve, deny, respond
- `external_calls`: ends calls from outside, with a token
- `dead_letters`, `unknown_outcomes`: calls that were given up; calls whose outcome is unknown, and settling one
- `subscription`: events of all calls as one stream
"""
