-- As before. A call that is left to other processes is watched from its beginning: the process that left it follows it. A later
-- UPDATE would lock the row at the moment at which a worker claims waiting calls, and the worker would pass over it.
CREATE OR REPLACE FUNCTION append(
    me bigint, my_epoch bigint, again boolean, units json, uses json, bodies bytea,
    runs json DEFAULT NULL, sums json DEFAULT NULL, alone boolean DEFAULT true,
    OUT outcomes bigint[], OUT followed bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    unit record;
    use record;
    its_key bigint;
    its_body bytea;
    is_watched boolean;
    had_ended boolean;
    weight bigint;
    start integer := 1;
    fresh boolean[] := '{}'; -- applied, and to a call that had not ended: an ending counts once
    whole boolean := true; -- so are all that end a call; else rows that are of several units (not `alone`) would be wrong
    hit_count bigint := 0;
    miss_count bigint := 0;
BEGIN
    PERFORM admit(me, my_epoch);
    outcomes := '{}';
    followed := '{}';
    FOR unit IN SELECT * FROM json_to_recordset(units) AS u(
        id text, place text, thread text, caller text, tool text, expect integer, last integer, fence integer, state text,
        created_at float8, ended_at float8, waiting_for text, request boolean, key bigint, owned boolean, priority bigint,
        size integer, artifacts json)
    LOOP
        its_body := substr(bodies, start, unit.size);
        start := start + unit.size;
        weight := unit.size;
        had_ended := false;
        IF unit.artifacts IS NOT NULL THEN
            SELECT weight + coalesce(sum(a.size), 0) INTO weight
                FROM json_to_recordset(unit.artifacts) AS a(name text, size bigint)
                WHERE NOT EXISTS (SELECT FROM artifacts k WHERE k.call = unit.key AND k.name = a.name);
        END IF;
        IF unit.expect = 0 THEN
            INSERT INTO calls AS c (id, place, thread, caller, tool, state, outcome, seq, fence, claims, owner, waiting_for,
                    priority, created_at, ended_at, bytes, watched)
                VALUES (unit.id, decode(unit.place, 'hex'), unit.thread, unit.caller, unit.tool, unit.state,
                    CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END, unit.last, unit.fence, 1,
                    CASE WHEN unit.owned AND unit.ended_at IS NULL THEN me END, unit.waiting_for, unit.priority,
                    unit.created_at, unit.ended_at, weight, NOT unit.owned AND unit.ended_at IS NULL)
                ON CONFLICT (id, place) DO NOTHING RETURNING c.key, c.watched INTO its_key, is_watched;
        ELSIF unit.fence = -1 THEN
            UPDATE calls c SET seq = unit.last, bytes = c.bytes + weight, request = c.request OR unit.request,
                    owner = CASE WHEN unit.owned THEN c.owner END
                WHERE c.key = unit.key AND c.seq = unit.expect RETURNING c.key, c.watched INTO its_key, is_watched;
        ELSE
            IF unit.ended_at IS NOT NULL THEN
                SELECT c.ended_at IS NOT NULL INTO had_ended FROM calls c WHERE c.key = unit.key;
            END IF;
            UPDATE calls c SET state = unit.state, seq = unit.last, bytes = c.bytes + weight, request = false,
                    waiting_for = unit.waiting_for, ended_at = unit.ended_at,
                    outcome = CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END,
                    owner = CASE WHEN unit.owned THEN c.owner END
                WHERE c.key = unit.key AND c.seq = unit.expect AND c.fence = unit.fence
                RETURNING c.key, c.watched INTO its_key, is_watched;
        END IF;
        IF its_key IS NULL THEN
            IF again AND unit.size > 0 THEN
                SELECT e.call INTO its_key FROM calls c JOIN events e ON e.call = c.key
                    WHERE CASE WHEN unit.expect = 0 THEN c.id = unit.id AND c.place = decode(unit.place, 'hex')
                            ELSE c.key = unit.key END
                        AND e.seq = unit.expect + 1 AND e.body = its_body;
            END IF;
            outcomes := outcomes || coalesce(its_key, CASE WHEN unit.expect = 0 THEN -1 ELSE 0 END);
            fresh := fresh || false;
            whole := whole AND unit.ended_at IS NULL;
            CONTINUE;
        END IF;
        IF unit.last > unit.expect THEN
            INSERT INTO events (call, seq, body) VALUES (its_key, unit.expect + 1, its_body);
        END IF;
        IF unit.artifacts IS NOT NULL THEN
            PERFORM name_artifacts(me, its_key, unit.artifacts);
        END IF;
        IF is_watched AND unit.expect > 0 THEN -- its creator knows of it
            followed := followed || its_key;
        END IF;
        outcomes := outcomes || its_key;
        fresh := fresh || (NOT had_ended);
        whole := whole AND NOT had_ended;
    END LOOP;
    IF uses IS NOT NULL THEN
        -- In the order of their keys: two groups that wait for each other's rows would wait for ever.
        FOR use IN SELECT * FROM json_to_recordset(uses) AS u(
            unit integer, key text, hit boolean, "now" float8, size integer, start integer, tags json, created_at float8,
            expires_at float8, accessed_at float8)
        LOOP
            CONTINUE WHEN NOT fresh[use.unit];
            IF use.hit THEN
                hit_count := hit_count + 1;
                UPDATE cache c SET accessed_at = use."now", access_count = c.access_count + 1 WHERE c.key = use.key;
            ELSE
                miss_count := miss_count + 1;
            END IF;
            IF use.tags IS NOT NULL THEN
                INSERT INTO cache AS c VALUES (use.key, substr(bodies, use.start, use.size),
                        ARRAY(SELECT json_array_elements_text(use.tags)), use.size, use.created_at, use.expires_at,
                        use.accessed_at, 0)
                    ON CONFLICT (key) DO UPDATE SET body = excluded.body, tags = excluded.tags, bytes = excluded.bytes,
                        created_at = excluded.created_at, expires_at = excluded.expires_at,
                        accessed_at = excluded.accessed_at, access_count = 0;
            END IF;
        END LOOP;
    END IF;
    IF sums IS NOT NULL THEN
        IF NOT (whole OR alone) THEN
            RAISE EXCEPTION 'not all of these units count' USING ERRCODE = 'CK003';
        END IF;
        PERFORM count_tallies(me, runs, sums, fresh);
    END IF;
    IF hit_count + miss_count > 0 THEN
        INSERT INTO cache_counts AS k (owner, hits, misses) VALUES (me, hit_count, miss_count)
            ON CONFLICT (owner) DO UPDATE SET hits = k.hits + excluded.hits, misses = k.misses + excluded.misses;
    END IF;
END $$;
