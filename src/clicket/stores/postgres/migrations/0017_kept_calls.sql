-- Calls of an agent's turns that stay as long as their thread: sweeps do not look at them.
ALTER TABLE calls ADD COLUMN kept boolean;
DROP INDEX calls_ended;
CREATE INDEX calls_ended ON calls (ended_at, key) WHERE ended_at IS NOT NULL AND kept IS NULL;
