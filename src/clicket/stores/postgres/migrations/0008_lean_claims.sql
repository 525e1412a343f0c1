-- Lean claims. `giver` is the process that left a call to others: it is told of each event by a notice with the event in it, so the row
-- is never marked as watched for it. A waiting call can be claimed by the append that starts it.
ALTER TABLE calls ADD COLUMN giver bigint;

-- Its successor is made with the queues (0011).
DROP FUNCTION append(bigint, bigint, boolean, json, json, bytea, json, json, boolean);

-- What is new in several calls: from the row on that holds the number after the known one. A call that is not there any more has no
-- bodies. A call that another process gave away or runs is watched from now on; what is written after that is announced, because the
-- writer waits for the mark.
CREATE FUNCTION news(me bigint, keys bigint[], ids text[], known integer[])
RETURNS TABLE (key bigint, bodies bytea[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    unmarked bigint[];
BEGIN
    unmarked := ARRAY(SELECT c.key FROM calls c WHERE c.key = ANY (keys) AND c.ended_at IS NULL AND NOT c.watched
        AND c.owner IS DISTINCT FROM me AND c.giver IS DISTINCT FROM me ORDER BY c.key);
    IF cardinality(unmarked) > 0 THEN
        PERFORM FROM calls c WHERE c.key = ANY (unmarked) ORDER BY c.key FOR UPDATE;
        UPDATE calls c SET watched = true WHERE c.key = ANY (unmarked) AND c.ended_at IS NULL;
    END IF;
    RETURN QUERY SELECT u.key, CASE WHEN c.key IS NULL THEN '{}'::bytea[] ELSE ARRAY(
            SELECT e.body FROM events e WHERE e.call = c.key AND e.seq >= coalesce(
                (SELECT max(f.seq) FROM events f WHERE f.call = c.key AND f.seq <= u.last + 1), 0) ORDER BY e.seq) END
        FROM unnest(keys, ids, known) AS u(key, id, last) LEFT JOIN calls c ON c.key = u.key AND c.id = u.id
        WHERE c.key IS NULL OR c.seq > u.last;
END $$;
