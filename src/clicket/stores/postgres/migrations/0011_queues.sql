-- The queue in which a call waits while it has no owner: the name of its tool, unless an append named another. Waiting calls are
-- claimed from caller to caller along `calls_queues`, so that a claim costs the same however many calls of one caller wait.
ALTER TABLE calls ADD COLUMN queue text COLLATE "C";
UPDATE calls SET queue = tool WHERE ended_at IS NULL;
DROP INDEX calls_waiting;
CREATE INDEX calls_queues ON calls (queue, caller, priority DESC, key) WHERE ended_at IS NULL AND owner IS NULL;
