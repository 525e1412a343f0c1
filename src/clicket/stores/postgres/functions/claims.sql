-- Calls that wait for an owner, slots, and tokens of a rate.

-- A function in SQL would be parsed and planned at each call.
CREATE FUNCTION take(me bigint, my_ticket bigint, keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE calls SET taken_from = owner, owner = me, fence = fence + 1, claims = claims + 1, signal = false,
        ticket = my_ticket WHERE key = ANY (keys);
END $$;

-- Claim one call, or calls of dead owners (`orphans`) by their queues. A ticket whose answer was lost (`unheard`) gets its calls again.
CREATE FUNCTION claim(
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

-- Keys of waiting calls: of each caller one, beginning after `last_caller` in the order of names, then of each a second. Within a
-- caller the highest priority comes first, then the oldest, over all these queues. No more than `wanted` callers are looked at: those
-- that come next. Of each caller a fair part is read first, and more only if other callers have too few.
CREATE FUNCTION next_in_fair_order(queues text[], last_caller text, wanted integer) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
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

-- Claim waiting calls, callers in turn, and return the calls themselves.
-- `passed`: how many more waited, and were locked by other transactions; if there are some, and no call was taken, there is one row
-- without a call.
-- Its statements are planned once for each connection: to plan them takes longer than to claim. The settings leave only the plans that
-- are right for a table of any size: the first claim is often made while there are no calls, and no statistics.
CREATE FUNCTION claim_waiting(
    me bigint, my_epoch bigint, my_ticket bigint, unheard bigint[], tools text[], last_caller text, most integer
) RETURNS TABLE (key bigint, id text, fence integer, claims integer, owner bigint, taken_from bigint, bodies bytea[], passed integer)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
        chosen := next_in_fair_order(tools, last_caller, most * 4 + 16); -- more than wanted: others may be taking some of them now
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

CREATE FUNCTION hold(
    me bigint, my_epoch bigint, what text, wanted integer, capacity bigint, OUT granted boolean, OUT freed boolean
) LANGUAGE plpgsql AS $$
DECLARE
    before bigint;
    others bigint;
BEGIN
    PERFORM admit(me, my_epoch);
    PERFORM pg_advisory_xact_lock(hashtextextended('clicket slot ' || current_schema() || ' ' || what, 0));
    SELECT coalesce(sum(s.held) FILTER (WHERE s.owner = me), 0), coalesce(sum(s.held) FILTER (WHERE s.owner <> me), 0)
        INTO before, others FROM slots s WHERE s.name = what;
    granted := wanted <= before OR others + wanted <= capacity;
    freed := wanted < before;
    IF wanted = 0 THEN
        DELETE FROM slots WHERE name = what AND owner = me;
    ELSIF granted AND wanted <> before THEN
        INSERT INTO slots (name, owner, held) VALUES (what, me, wanted)
            ON CONFLICT (name, owner) DO UPDATE SET held = excluded.held;
    END IF;
END $$;

-- Up to `wanted` tokens; what the bucket has left, and the seconds until the next one comes. The arithmetic is that of
-- `stores/bucket.py`. 0 reads the bucket without a lock.
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
