-- What people filter by. A plain call writes into none of these indexes but its caller's: it has no request id, and no error.
ALTER TABLE calls ADD COLUMN request_id text COLLATE "C";
ALTER TABLE calls ADD COLUMN code text COLLATE "C";

CREATE FUNCTION old_request_id(body bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    unit json;
BEGIN
    unit := convert_from(body, 'UTF8')::json;
    RETURN nullif(CASE unit ->> 0 WHEN 's' THEN unit #>> '{1,request_id}' ELSE unit #>> '{0,4,request_id}' END, '');
EXCEPTION WHEN OTHERS THEN -- not what clicket writes
    RETURN NULL;
END $$;
CREATE FUNCTION old_code(body bytea, its_state text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT event #>> '{4,error,code}' FROM json_array_elements(convert_from(body, 'UTF8')::json) AS event
        WHERE json_typeof(event) = 'array' AND event ->> 3 = its_state AND event #>> '{4,error,code}' IS NOT NULL LIMIT 1);
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
UPDATE calls c SET request_id = old_request_id(e.body) FROM events e
    WHERE e.call = c.key AND e.seq = 1 AND position('"request_id":"'::bytea in e.body) > 0;
UPDATE calls c SET code = (SELECT old_code(e.body, c.outcome) FROM events e WHERE e.call = c.key
        AND position('"error":'::bytea in e.body) > 0 AND old_code(e.body, c.outcome) IS NOT NULL ORDER BY e.seq LIMIT 1)
    WHERE c.outcome <> 'completed';
DROP FUNCTION old_request_id(bytea);
DROP FUNCTION old_code(bytea, text);

CREATE INDEX calls_request ON calls (request_id, key) WHERE request_id IS NOT NULL;
CREATE INDEX calls_code ON calls (code, key) WHERE code IS NOT NULL;
CREATE INDEX calls_tool_ended_badly ON calls (tool, outcome, key) WHERE outcome <> 'completed';
CREATE INDEX calls_caller ON calls (caller, key) WHERE caller <> '';

-- The keys of the calls that were made in each period of 300 seconds, by the clocks of their writers: none below `first`, none above
-- `last`, which is rounded up, so that it changes once for many calls.
CREATE TABLE call_times (
    period bigint PRIMARY KEY,
    first bigint NOT NULL,
    last bigint NOT NULL
);
INSERT INTO call_times SELECT floor(created_at / 300)::bigint, min(key), max(key) | 4095 FROM calls GROUP BY 1;
