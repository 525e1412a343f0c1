-- `giver` is the process that left a call to others. It gets each event in a notice, so the row is never marked as watched for it.
ALTER TABLE calls ADD COLUMN giver bigint;
