-- The queue in which a call waits while it has no owner: the name of its tool, unless an append named another. Waiting calls are
-- claimed from caller to caller along `calls_queues`, so that a claim costs the same however many calls of one caller wait.
ALTER TABLE calls ADD COLUMN queue text COLLATE "C";
UPDATE calls SET queue = tool WHERE ended_at IS NULL;
DROP INDEX calls_waiting;
CREATE INDEX calls_queues ON calls (queue, caller, priority DESC, key) WHERE ended_at IS NULL AND owner IS NULL;

-- Keys of waiting calls: of each caller one, beginning after `last_caller` in the order of names, then of each a second. Within a
-- caller the highest priority comes first, then the oldest, over all these queues. No more than `wanted` callers are looked at: those
-- that come next. Of each caller a fair part is read first, and more only if other callers have too few.
CREATE FUNCTION next_in_turn(queues text[], last_caller text, wanted integer) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    lines text[]; -- a queue and a caller in it, one after the other
    callers text[];
    part integer;
    found bigint[];
BEGIN
    SELECT array_agg(f.queue), array_agg(f.caller) INTO lines, callers FROM unnest(queues) AS q(queue) CROSS JOIN LATERAL (
        WITH RECURSIVE later AS (
            (SELECT c.caller, 1 AS place FROM calls c WHERE c.queue = q.queue AND c.ended_at IS NULL AND c.owner IS NULL
                AND c.caller > last_caller ORDER BY c.caller LIMIT 1)
            UNION ALL
            SELECT next.caller, l.place + 1 FROM later l CROSS JOIN LATERAL (
                SELECT c.caller FROM calls c WHERE c.queue = q.queue AND c.ended_at IS NULL AND c.owner IS NULL
                    AND c.caller > l.caller ORDER BY c.caller LIMIT 1) next
                WHERE l.place < wanted
        ), first AS (
            (SELECT c.caller, 1 AS place FROM calls c WHERE c.queue = q.queue AND c.ended_at IS NULL AND c.owner IS NULL
                ORDER BY c.caller LIMIT 1)
            UNION ALL
            SELECT next.caller, l.place + 1 FROM first l CROSS JOIN LATERAL (
                SELECT c.caller FROM calls c WHERE c.queue = q.queue AND c.ended_at IS NULL AND c.owner IS NULL
                    AND c.caller > l.caller ORDER BY c.caller LIMIT 1) next
                WHERE l.place < wanted AND l.caller <= last_caller
        )
        SELECT q.queue, f.caller FROM (SELECT caller FROM later UNION ALL SELECT caller FROM first WHERE caller <= last_caller) f
    ) f;
    IF callers IS NULL THEN
        RETURN '{}';
    END IF;
    part := wanted / (SELECT count(DISTINCT u.caller) FROM unnest(callers) AS u(caller)) + 1;
    LOOP
        found := ARRAY(
            SELECT ranked.key FROM (
                SELECT next.key, u.caller, row_number() OVER (PARTITION BY u.caller ORDER BY next.priority DESC, next.key) AS turn
                FROM unnest(lines, callers) AS u(queue, caller) CROSS JOIN LATERAL (
                    SELECT c.key, c.priority FROM calls c
                    WHERE c.queue = u.queue AND c.caller = u.caller AND c.ended_at IS NULL AND c.owner IS NULL
                    ORDER BY c.priority DESC, c.key LIMIT part) next) ranked
            ORDER BY ranked.turn, ranked.caller <= last_caller COLLATE "C", ranked.caller COLLATE "C" LIMIT wanted);
        EXIT WHEN part >= wanted OR cardinality(found) >= wanted OR cardinality(found) < part;
        part := wanted;
    END LOOP;
    RETURN found;
END $$;

-- Of these waiting calls the first `most` that no other process is taking now, locked. The calls are found by their keys alone: an index
-- of waiting calls would be read from end to end while the server has no statistics of it.
CREATE FUNCTION lock_waiting(chosen bigint[], most integer) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(SELECT c.key FROM unnest(chosen) WITH ORDINALITY AS u(key, place) JOIN calls c ON c.key = u.key
        WHERE coalesce(c.ended_at, -1) = -1 AND coalesce(c.owner, -1) = -1
        ORDER BY u.place LIMIT most FOR UPDATE OF c SKIP LOCKED);
END $$;

-- As `claim_in_turn`, with the calls themselves, and without a limit on the calls that are looked at (`looked_at` is not used any more).
-- `passed`: how many more waited, and were locked by other transactions; if there are some, and no call was taken, there is one row
-- without a call.
CREATE FUNCTION claim_waiting(
    me bigint, my_epoch bigint, my_ticket bigint, unheard bigint[], tools text[], last_caller text, looked_at integer, most integer
) RETURNS TABLE (key bigint, id text, fence integer, claims integer, owner bigint, taken_from bigint, bodies bytea[], passed integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    chosen bigint[] := '{}';
    taken bigint[] := '{}';
    missed integer := 0;
BEGIN
    PERFORM admit(me, my_epoch);
    IF cardinality(unheard) > 0 THEN
        taken := ARRAY(SELECT c.key FROM calls c WHERE c.owner = me AND c.ended_at IS NULL AND c.ticket = ANY (unheard)
            ORDER BY c.priority DESC, c.key);
    END IF;
    IF cardinality(taken) = 0 THEN
        chosen := next_in_turn(tools, last_caller, most * 4 + 16); -- more than wanted: others may be taking some of them now
        IF cardinality(chosen) = 0 THEN
            RETURN;
        END IF;
        taken := lock_waiting(chosen, most);
        IF cardinality(taken) < most THEN
            missed := cardinality(chosen) - cardinality(taken);
        END IF;
        PERFORM take(me, my_ticket, taken);
    END IF;
    RETURN QUERY SELECT c.key, c.id, c.fence, c.claims, c.owner, c.taken_from,
            ARRAY(SELECT e.body FROM events e WHERE e.call = c.key ORDER BY e.seq), missed
        FROM unnest(taken) WITH ORDINALITY AS u(key, place) JOIN calls c ON c.key = u.key ORDER BY u.place;
    IF NOT FOUND AND missed > 0 THEN
        RETURN QUERY SELECT NULL::bigint, NULL::text, NULL::integer, NULL::integer, NULL::bigint, NULL::bigint, NULL::bytea[], missed;
    END IF;
END $$;

-- As before. Orphans are claimed by their queue.
CREATE OR REPLACE FUNCTION claim(
    me bigint, my_epoch bigint, my_ticket bigint, unheard bigint[], what text, gone bigint[], tools text[], wanted bigint,
    most integer, OUT keys bigint[], OUT freed boolean
) LANGUAGE plpgsql AS $$
DECLARE
    dead bigint[] := '{}';
BEGIN
    PERFORM admit(me, my_epoch);
    freed := false;
    IF cardinality(unheard) > 0 THEN
        keys := ARRAY(SELECT c.key FROM calls c WHERE c.owner = me AND c.ended_at IS NULL AND c.ticket = ANY (unheard)
            ORDER BY c.priority DESC, c.key);
        IF cardinality(keys) > 0 THEN
            RETURN;
        END IF;
    END IF;
    dead := dead_owners(me, gone);
    IF what = 'one' THEN
        keys := ARRAY(SELECT c.key FROM calls c
            WHERE c.key = wanted AND c.ended_at IS NULL AND (c.owner IS NULL OR c.owner = ANY (dead)) FOR UPDATE);
    ELSIF what = 'orphans' THEN
        keys := ARRAY(SELECT c.key FROM calls c
            WHERE c.ended_at IS NULL AND c.owner = ANY (dead) AND c.queue = ANY (tools)
            ORDER BY c.key LIMIT most FOR UPDATE SKIP LOCKED);
    END IF;
    PERFORM take(me, my_ticket, keys);
    IF what = 'orphans' AND cardinality(dead) > 0 THEN
        freed := leave(dead, false);
    END IF;
END $$;

-- As before, with the queue of a call. A claiming unit (`claim`) takes a call that has no owner: the call must be as its writer knows it,
-- and its fence the one before the unit's. It never waits for a lock: another process that has the row locked is claiming it or writing
-- to it. `givers`: for each unit the giver of its call, 0 if there is none.
CREATE FUNCTION append(
    me bigint, my_epoch bigint, again boolean, units json, uses json, bodies bytea,
    runs json DEFAULT NULL, sums json DEFAULT NULL, alone boolean DEFAULT true,
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
        created_at float8, ended_at float8, waiting_for text, request boolean, key bigint, owned boolean, priority bigint,
        size integer, artifacts json, claim boolean, queue text)
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
                    priority, created_at, ended_at, bytes, giver, queue)
                VALUES (unit.id, decode(unit.place, 'hex'), unit.thread, unit.caller, unit.tool, unit.state,
                    CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END, unit.last, unit.fence, 1,
                    CASE WHEN unit.owned AND unit.ended_at IS NULL THEN me END, unit.waiting_for, unit.priority,
                    unit.created_at, unit.ended_at, weight, CASE WHEN NOT unit.owned AND unit.ended_at IS NULL THEN me END,
                    coalesce(unit.queue, unit.tool))
                ON CONFLICT (id, place) DO NOTHING RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
        ELSIF unit.fence = -1 THEN
            UPDATE calls c SET seq = unit.last, bytes = c.bytes + weight, request = c.request OR unit.request,
                    owner = CASE WHEN unit.owned THEN c.owner END
                WHERE c.key = unit.key AND c.seq = unit.expect RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
        ELSIF unit.claim THEN
            PERFORM FROM calls c WHERE c.key = unit.key AND c.owner IS NULL FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE calls c SET state = unit.state, seq = unit.last, bytes = c.bytes + weight, request = false,
                        waiting_for = unit.waiting_for, ended_at = unit.ended_at,
                        outcome = CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END,
                        owner = CASE WHEN unit.owned THEN me END, fence = unit.fence, claims = c.claims + 1, taken_from = NULL,
                        ticket = NULL
                    WHERE c.key = unit.key AND c.id = unit.id AND c.created_at = unit.created_at AND c.seq = unit.expect
                        AND c.fence = unit.fence - 1 AND c.owner IS NULL AND c.ended_at IS NULL
                    RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
            ELSE
                its_key := NULL;
            END IF;
        ELSE
            IF unit.ended_at IS NOT NULL THEN
                SELECT c.ended_at IS NOT NULL INTO had_ended FROM calls c WHERE c.key = unit.key;
            END IF;
            UPDATE calls c SET state = unit.state, seq = unit.last, bytes = c.bytes + weight, request = false,
                    waiting_for = unit.waiting_for, ended_at = unit.ended_at,
                    outcome = CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END,
                    owner = CASE WHEN unit.owned THEN c.owner END, queue = coalesce(unit.queue, c.queue)
                WHERE c.key = unit.key AND c.seq = unit.expect AND c.fence = unit.fence
                RETURNING c.key, c.watched, c.giver INTO its_key, is_watched, its_giver;
        END IF;
        IF its_key IS NULL THEN
            IF again AND unit.size > 0 THEN
                SELECT e.call INTO its_key FROM calls c JOIN events e ON e.call = c.key
                    WHERE CASE WHEN unit.expect = 0 THEN c.id = unit.id AND c.place = decode(unit.place, 'hex')
                            ELSE c.key = unit.key END
                        AND e.seq = unit.expect + 1 AND e.body = its_body
                        AND (unit.claim IS NOT TRUE OR c.owner = me AND c.fence = unit.fence);
            END IF;
            outcomes := outcomes || coalesce(its_key, CASE WHEN unit.expect = 0 THEN -1 ELSE 0 END);
            givers := givers || 0::bigint;
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
END $$;
