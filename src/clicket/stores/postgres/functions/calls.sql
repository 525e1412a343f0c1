-- Events of calls, and the removal of calls.

-- Append units of events. A claiming unit (`claim`) takes a call that has no owner: the call must be as its writer knows it, and its fence
-- the one before the unit's. It never waits for a lock: another process that has the row locked is claiming it or writing to it.
-- `givers`: for each unit the giver of its call, 0 if there is none. `ticket`: `tell` follows, and needs the outcomes.
CREATE FUNCTION append(
    me bigint, my_epoch bigint, again boolean, units json, uses json, bodies bytea,
    runs json, sums json, alone boolean, ticket text,
    OUT outcomes bigint[], OUT followed bigint[], OUT givers bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    unit record;
    use record;
    its_key bigint;
    its_body bytea;
    is_watched boolean;
    its_giver bigint;
    had_ended boolean;
    is_in_time boolean;
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
    givers := '{}';
    FOR unit IN SELECT * FROM json_to_recordset(units) AS u(
        id text, place text, thread text, caller text, tool text, expect integer, last integer, fence integer, state text,
        created_at float8, ended_at float8, waiting_for text, signal boolean, key bigint, owned boolean, priority bigint,
        size integer, artifacts json, claim boolean, queue text, request_id text, code text, unless_kind text, unless_hash text, maker bigint[])
    LOOP
        its_body := substr(bodies, start, unit.size);
        start := start + unit.size;
        weight := unit.size;
        had_ended := false;
        is_in_time := true;
        IF unit.artifacts IS NOT NULL THEN
            SELECT weight + coalesce(sum(a.size), 0) INTO weight
                FROM json_to_recordset(unit.artifacts) AS a(name text, size bigint)
                WHERE NOT EXISTS (SELECT FROM artifacts k WHERE k.call = unit.key AND k.name = a.name);
        END IF;
        IF unit.maker IS NOT NULL THEN -- nobody changes the call that makes this one before both are there
            PERFORM FROM calls c WHERE c.key = unit.maker[1] AND c.seq = unit.maker[2] AND c.fence = unit.maker[3]
                AND c.ended_at IS NULL AND c.owner IS NOT NULL AND NOT c.signal FOR SHARE;
            is_in_time := FOUND;
        END IF;
        IF NOT is_in_time THEN
            its_key := NULL;
        ELSIF unit.expect = 0 THEN
            INSERT INTO calls AS c (id, place, thread, caller, tool, state, outcome, seq, fence, claims, owner, waiting_for,
                    priority, created_at, ended_at, bytes, giver, queue, request_id, code)
                VALUES (unit.id, decode(unit.place, 'hex'), unit.thread, unit.caller, unit.tool, unit.state,
                    CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END, unit.last, unit.fence, 1,
                    CASE WHEN unit.owned AND unit.ended_at IS NULL THEN me END, unit.waiting_for, unit.priority,
                    unit.created_at, unit.ended_at, weight, CASE WHEN NOT unit.owned AND unit.ended_at IS NULL THEN me END,
                    coalesce(unit.queue, unit.tool), unit.request_id, unit.code)
                ON CONFLICT (id, place) DO NOTHING RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
            -- The insertion waited for a removal of the former call: only now is everything seen that was written before that.
            IF unit.unless_hash IS NOT NULL AND its_key IS NOT NULL AND EXISTS (
                SELECT FROM documents p WHERE p.kind = unit.unless_kind AND p.hash = decode(unit.unless_hash, 'hex')) THEN
                DELETE FROM calls c WHERE c.key = its_key;
                its_key := NULL;
            END IF;
        ELSIF unit.fence = -1 THEN
            UPDATE calls c SET seq = unit.last, bytes = c.bytes + weight, signal = c.signal OR unit.signal,
                    owner = CASE WHEN unit.owned THEN c.owner END
                WHERE c.key = unit.key AND c.seq = unit.expect RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
        ELSIF unit.claim THEN
            PERFORM FROM calls c WHERE c.key = unit.key AND c.owner IS NULL FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE calls c SET state = unit.state, seq = unit.last, bytes = c.bytes + weight, signal = false,
                        waiting_for = unit.waiting_for, ended_at = unit.ended_at,
                        outcome = CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END, code = unit.code,
                        owner = CASE WHEN unit.owned THEN me END, fence = unit.fence, claims = c.claims + 1, taken_from = NULL,
                        ticket = NULL
                    WHERE c.key = unit.key AND c.id = unit.id AND c.created_at = unit.created_at AND c.seq = unit.expect
                        AND c.fence = unit.fence - 1 AND c.owner IS NULL AND c.ended_at IS NULL
                    RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
            ELSE
                its_key := NULL;
            END IF;
        ELSE
            UPDATE calls c SET state = unit.state, seq = unit.last, bytes = c.bytes + weight, signal = false,
                    waiting_for = unit.waiting_for, ended_at = unit.ended_at,
                    outcome = CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END, code = unit.code,
                    owner = CASE WHEN unit.owned THEN c.owner END, queue = coalesce(unit.queue, c.queue)
                WHERE c.key = unit.key AND c.seq = unit.expect AND c.fence = unit.fence AND c.ended_at IS NULL
                RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
            IF its_key IS NULL THEN -- an append after the end of its call adds events, and changes nothing else
                UPDATE calls c SET seq = unit.last, bytes = c.bytes + weight
                    WHERE c.key = unit.key AND c.seq = unit.expect AND c.fence = unit.fence AND c.ended_at IS NOT NULL
                    RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
                had_ended := its_key IS NOT NULL;
            END IF;
        END IF;
        IF its_key IS NULL THEN
            IF again AND unit.size > 0 THEN
                SELECT e.call INTO its_key FROM calls c JOIN events e ON e.call = c.key
                    WHERE CASE WHEN unit.expect = 0 THEN c.id = unit.id AND c.place = decode(unit.place, 'hex')
                            ELSE c.key = unit.key END
                        AND e.seq = unit.expect + 1 AND e.body = its_body
                        AND (unit.claim IS NOT TRUE OR c.owner = me AND c.fence = unit.fence);
            END IF;
            outcomes := outcomes || coalesce(its_key, CASE WHEN unit.expect = 0 AND is_in_time THEN -1 ELSE 0 END);
            givers := givers || 0::bigint;
            fresh := fresh || false;
            whole := whole AND unit.ended_at IS NULL;
            CONTINUE;
        END IF;
        IF unit.expect = 0 THEN
            PERFORM note_time(floor(unit.created_at / 300)::bigint, its_key);
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
        givers := givers || coalesce(its_giver, 0);
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
    IF ticket IS NOT NULL THEN -- undone with this transaction, so `tell` finds it only after the commit
        PERFORM set_config('clicket.applied', ticket || ' ' || array_to_string(outcomes, ','), false);
    END IF;
END $$;

-- Record which keys the calls of a period have. Nearly always that is on record.
CREATE FUNCTION note_time(its_period bigint, its_key bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM call_times t WHERE t.period = its_period AND its_key BETWEEN t.first AND t.last) THEN
        INSERT INTO call_times AS t VALUES (its_period, its_key, its_key | 4095)
            ON CONFLICT (period) DO UPDATE SET first = least(t.first, excluded.first), last = greatest(t.last, excluded.last);
    END IF;
END $$;

-- Send the messages that go with the append before, on the same connection: each if all its units were applied, with the keys of its new
-- calls in front. For an append of one unit the writer says the same in plain SQL. A transaction of its own: a commit that notifies holds a lock of the whole server, so it must not wait for the disk.
CREATE FUNCTION tell(ticket text, channels text[], texts text[], of_message integer[], places integer[], are_new boolean[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    applied text := coalesce(current_setting('clicket.applied', true), '');
    keys bigint[];
    new_keys text[];
    whole boolean;
BEGIN
    IF split_part(applied, ' ', 1) <> ticket THEN
        RETURN;
    END IF;
    keys := string_to_array(split_part(applied, ' ', 2), ',')::bigint[];
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR m IN 1 .. cardinality(channels) LOOP
        new_keys := '{}';
        whole := true;
        FOR n IN 1 .. cardinality(places) LOOP
            CONTINUE WHEN of_message[n] <> m;
            whole := whole AND keys[places[n]] > 0;
            IF are_new[n] THEN
                new_keys := new_keys || keys[places[n]]::text;
            END IF;
        END LOOP;
        IF whole THEN
            PERFORM pg_notify(channels[m], CASE WHEN cardinality(new_keys) > 0
                THEN '+' || array_to_string(new_keys, ',') || E'\n' ELSE '' END || texts[m]);
        END IF;
    END LOOP;
END $$;

-- From now on the call keeps the artifact, in place of the owner that put it.
CREATE FUNCTION name_artifacts(me bigint, its_key bigint, named json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    artifact record;
BEGIN
    FOR artifact IN SELECT * FROM json_to_recordset(named) AS a(name text) LOOP
        INSERT INTO artifacts (call, name) VALUES (its_key, artifact.name) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            UPDATE puts SET number = number - 1 WHERE name = artifact.name AND owner = me;
            DELETE FROM puts WHERE name = artifact.name AND owner = me AND number <= 0;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION erase(me bigint, my_epoch bigint, units json, bodies bytea, runs json, sums json)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    unit record;
    its_key bigint;
    start integer := 1;
    erased boolean[] := '{}';
BEGIN
    PERFORM admit(me, my_epoch);
    FOR unit IN SELECT * FROM json_to_recordset(units) AS u(id text, place text, last integer, size integer) LOOP
        SELECT c.key INTO its_key FROM calls c
            WHERE c.id = unit.id AND c.place = decode(unit.place, 'hex') AND c.seq = unit.last
                AND EXISTS (SELECT FROM events e
                    WHERE e.call = c.key AND e.seq = 1 AND e.body = substr(bodies, start, unit.size))
            FOR UPDATE;
        IF FOUND THEN
            DELETE FROM events WHERE call = its_key;
            DELETE FROM artifacts WHERE call = its_key;
            DELETE FROM calls WHERE key = its_key;
        END IF;
        erased := erased || (its_key IS NOT NULL);
        start := start + unit.size;
    END LOOP;
    IF sums IS NOT NULL THEN
        PERFORM uncount_tallies(me, runs, sums, erased);
    END IF;
    RETURN cardinality(array_remove(erased, false));
END $$;

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

-- Remove ended calls; the answer names artifacts that they named.
CREATE FUNCTION remove_calls(going bigint[], OUT number integer, OUT weight bigint, OUT names text[]) LANGUAGE plpgsql AS $$
DECLARE
    locked bigint[];
BEGIN
    SELECT coalesce(array_agg(c.key), '{}'), count(*), coalesce(sum(c.bytes), 0) INTO locked, number, weight FROM (
        SELECT key, bytes FROM calls WHERE key = ANY (going) AND ended_at IS NOT NULL ORDER BY key
        FOR UPDATE SKIP LOCKED) c;
    DELETE FROM events WHERE call = ANY (locked);
    WITH named AS (DELETE FROM artifacts WHERE call = ANY (locked) RETURNING name)
    SELECT coalesce(array_agg(DISTINCT named.name), '{}') INTO names FROM named;
    DELETE FROM calls WHERE key = ANY (locked);
END $$;
