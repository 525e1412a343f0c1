-- Tokens of a rate that all owners share. `full_at`: when the bucket would be full again if no more were taken, by this server's clock.
CREATE TABLE buckets (
    name text COLLATE "C" PRIMARY KEY,
    full_at float8 NOT NULL
) WITH (fillfactor = 50); -- rows are written often: new versions need room beside them

-- Up to `wanted` tokens; what the bucket has left, and the seconds until the next one comes. The arithmetic is that of
-- `stores/bucket.py`. 0 only looks, and waits for nobody.
CREATE FUNCTION take_tokens(
    what text, rate float8, burst integer, wanted integer, OUT granted integer, OUT remaining integer, OUT wait float8
) LANGUAGE plpgsql AS $$
DECLARE
    stamp float8;
    at float8;
    there float8;
BEGIN
    IF wanted > 0 THEN
        INSERT INTO buckets VALUES (what, 0) ON CONFLICT DO NOTHING;
        SELECT b.full_at INTO stamp FROM buckets b WHERE b.name = what FOR UPDATE;
    ELSE
        SELECT b.full_at INTO stamp FROM buckets b WHERE b.name = what;
    END IF;
    at := extract(epoch FROM clock_timestamp()); -- after the wait for the row
    stamp := least(greatest(coalesce(stamp, 0), at), at + burst / rate);
    there := burst - (stamp - at) * rate;
    granted := greatest(least(wanted, floor(there + 1e-6)::integer), 0);
    IF wanted > 0 THEN
        UPDATE buckets SET full_at = stamp + granted / rate WHERE name = what;
    END IF;
    there := there - granted;
    remaining := floor(there + 1e-6);
    wait := CASE WHEN there + 1e-6 >= 1 THEN 0 ELSE (1 - there) / rate END;
END $$;
