-- What must be one transaction is one function, called in one round trip.

CREATE FUNCTION gate(me bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT hashtextextended('clicket owner ' || current_schema() || ' ' || me, 0);
$$;

-- An owner that finds its own lease run out was paused, or this server's clock was set forward. It cannot tell which, and in
-- the second case everybody's lease looks like that: for the length of a lease it judges nobody by theirs.
CREATE FUNCTION renew(me bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE owners SET renewed = clock_timestamp(), judges_from = CASE
        WHEN renewed + make_interval(secs => lease) < clock_timestamp()
            THEN clock_timestamp() + make_interval(secs => lease)
        ELSE least(judges_from, clock_timestamp() + make_interval(secs => lease)) END
    WHERE id = me;
$$;

-- Who writes shows its epoch. Taking the next epoch waits for what the owner has under way; what comes later with an old
-- one, because it was held up on the line, is refused and does nothing.
CREATE FUNCTION enter(me bigint, facts json) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(gate(me));
    PERFORM renew(me);
    INSERT INTO owners AS o (id, host, boot, pid, started, lease, renewed, epoch)
        SELECT me, f.host, f.boot, f.pid, f.started, f.lease, clock_timestamp(), nextval('epochs')
            FROM json_to_record(facts) AS f(host text, boot text, pid bigint, started text, lease float8)
        ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch
        RETURNING o.epoch INTO taken;
    RETURN taken;
END $$;

CREATE FUNCTION admit(me bigint, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    known bigint;
    age interval;
    due interval;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(gate(me));
    SELECT o.epoch, clock_timestamp() - o.renewed, make_interval(secs => o.lease / 3) INTO known, age, due
        FROM owners o WHERE o.id = me;
    IF known IS DISTINCT FROM my_epoch THEN
        RAISE EXCEPTION 'owner % has another epoch now', me USING ERRCODE = 'CK001';
    END IF;
    IF age > due OR age < interval '-1 second' THEN
        PERFORM renew(me);
    END IF;
END $$;

CREATE FUNCTION stay(me bigint, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM admit(me, my_epoch);
    PERFORM renew(me);
END $$;

-- Each unit is judged by itself. The answer for each: the call's key, 0 for a stale one, -1 for a duplicate.
-- `again`: the group may be there already, all of it or none; a unit that stands there byte for byte was applied.
CREATE FUNCTION append(
    me bigint, my_epoch bigint, again boolean, units json, uses json, bodies bytea,
    OUT outcomes bigint[], OUT followed bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    unit record;
    use record;
    its_key bigint;
    its_body bytea;
    is_watched boolean;
    weight bigint;
    start integer := 1;
    applied boolean[] := '{}';
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
        IF unit.artifacts IS NOT NULL THEN
            SELECT weight + coalesce(sum(a.size), 0) INTO weight
                FROM json_to_recordset(unit.artifacts) AS a(name text, size bigint)
                WHERE NOT EXISTS (SELECT FROM artifacts k WHERE k.call = unit.key AND k.name = a.name);
        END IF;
        IF unit.expect = 0 THEN
            INSERT INTO calls AS c (id, place, thread, caller, tool, state, outcome, seq, fence, claims, owner, waiting_for,
                    priority, created_at, ended_at, bytes)
                VALUES (unit.id, decode(unit.place, 'hex'), unit.thread, unit.caller, unit.tool, unit.state,
                    CASE WHEN unit.ended_at IS NOT NULL THEN unit.state END, unit.last, unit.fence, 1,
                    CASE WHEN unit.owned AND unit.ended_at IS NULL THEN me END, unit.waiting_for, unit.priority,
                    unit.created_at, unit.ended_at, weight)
                ON CONFLICT (id, place) DO NOTHING RETURNING c.key, c.watched INTO its_key, is_watched;
        ELSIF unit.fence = -1 THEN
            UPDATE calls c SET seq = unit.last, bytes = c.bytes + weight, request = c.request OR unit.request,
                    owner = CASE WHEN unit.owned THEN c.owner END
                WHERE c.key = unit.key AND c.seq = unit.expect RETURNING c.key, c.watched INTO its_key, is_watched;
        ELSE
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
            applied := applied || false;
            CONTINUE;
        END IF;
        IF unit.last > unit.expect THEN
            INSERT INTO events (call, seq, body) VALUES (its_key, unit.expect + 1, its_body);
        END IF;
        IF unit.artifacts IS NOT NULL THEN
            PERFORM name_artifacts(me, its_key, unit.artifacts);
        END IF;
        IF is_watched THEN
            followed := followed || its_key;
        END IF;
        outcomes := outcomes || its_key;
        applied := applied || true;
    END LOOP;
    IF uses IS NULL THEN
        RETURN;
    END IF;
    -- In the order of their keys: two groups that wait for each other's rows would wait for ever.
    FOR use IN SELECT * FROM json_to_recordset(uses) AS u(
        unit integer, key text, hit boolean, "now" float8, size integer, start integer, tags json, created_at float8,
        expires_at float8, accessed_at float8)
    LOOP
        CONTINUE WHEN NOT applied[use.unit];
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
    IF hit_count + miss_count > 0 THEN
        INSERT INTO cache_counts AS k (owner, hits, misses) VALUES (me, hit_count, miss_count)
            ON CONFLICT (owner) DO UPDATE SET hits = k.hits + excluded.hits, misses = k.misses + excluded.misses;
    END IF;
END $$;

-- A name takes the place of the put that came before it.
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

-- Remove the calls that consist of exactly these units.
CREATE FUNCTION erase(me bigint, my_epoch bigint, units json, bodies bytea) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    unit record;
    its_key bigint;
    start integer := 1;
    erased integer := 0;
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
            erased := erased + 1;
        END IF;
        start := start + unit.size;
    END LOOP;
    RETURN erased;
END $$;

-- Owners that are no more: those that the asker knows to be gone, those whose lease has run out, and those that left no
-- trace but their calls.
CREATE FUNCTION dead_owners(me bigint, gone bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    -- The clock was set back: leases that end in a far future count from now.
    UPDATE owners SET renewed = clock_timestamp() WHERE renewed > clock_timestamp() + interval '1 second';
    RETURN ARRAY(
        SELECT o.id FROM owners o
            WHERE o.id <> me AND (o.id = ANY (gone) OR o.renewed + make_interval(secs => o.lease) < clock_timestamp()
                AND (SELECT judge.judges_from FROM owners judge WHERE judge.id = me) <= clock_timestamp())
        UNION
        SELECT held.owner FROM (SELECT DISTINCT c.owner FROM calls c WHERE c.ended_at IS NULL AND c.owner <> me) held
            WHERE NOT EXISTS (SELECT FROM owners o WHERE o.id = held.owner));
END $$;

CREATE FUNCTION take(me bigint, my_ticket bigint, keys bigint[]) RETURNS void LANGUAGE sql AS $$
    UPDATE calls SET taken_from = owner, owner = me, fence = fence + 1, claims = claims + 1, request = false,
        ticket = my_ticket WHERE key = ANY (keys);
$$;

-- The keys of the calls that were taken. `unheard`: tickets of claims whose answers were lost; what they took is handed out
-- before anything else is taken.
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
    IF what <> 'waiting' THEN
        dead := dead_owners(me, gone);
    END IF;
    IF what = 'one' THEN
        keys := ARRAY(SELECT c.key FROM calls c
            WHERE c.key = wanted AND c.ended_at IS NULL AND (c.owner IS NULL OR c.owner = ANY (dead)) FOR UPDATE);
    ELSIF what = 'orphans' THEN
        keys := ARRAY(SELECT c.key FROM calls c
            WHERE c.ended_at IS NULL AND c.owner = ANY (dead) AND c.tool = ANY (tools)
            ORDER BY c.key LIMIT most FOR UPDATE SKIP LOCKED);
    ELSE
        -- The first few of each tool by its index; more than wanted, as others may be taking some of them now.
        keys := ARRAY(SELECT first.key FROM unnest(tools) AS t(tool) CROSS JOIN LATERAL (
                SELECT c.key, c.priority FROM calls c WHERE c.tool = t.tool AND c.ended_at IS NULL AND c.owner IS NULL
                ORDER BY c.priority DESC, c.key LIMIT most * 4 + 16) first
            ORDER BY first.priority DESC, first.key LIMIT most * 4 + 16);
        keys := ARRAY(SELECT c.key FROM calls c
            WHERE c.key = ANY (keys) AND c.ended_at IS NULL AND c.owner IS NULL
            ORDER BY c.priority DESC, c.key LIMIT most FOR UPDATE SKIP LOCKED);
    END IF;
    PERFORM take(me, my_ticket, keys);
    IF what = 'orphans' AND cardinality(dead) > 0 THEN
        freed := leave(dead, false);
    END IF;
END $$;

-- What owners that are no more held, but for their calls, is free. An owner is forgotten when it holds no call. Says whether
-- slots were among it.
CREATE FUNCTION leave(gone bigint[], signing_off boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    freed boolean;
    idle bigint[];
BEGIN
    DELETE FROM slots WHERE owner = ANY (gone);
    freed := FOUND;
    IF signing_off THEN
        idle := gone;
    ELSE
        idle := ARRAY(SELECT o.id FROM owners o WHERE o.id = ANY (gone)
            AND NOT EXISTS (SELECT FROM calls c WHERE c.owner = o.id AND c.ended_at IS NULL)
            ORDER BY o.id FOR UPDATE SKIP LOCKED);
    END IF;
    DELETE FROM puts WHERE owner = ANY (idle);
    WITH counted AS (DELETE FROM cache_counts k WHERE k.owner = ANY (idle) AND k.owner <> 0 RETURNING *)
    INSERT INTO cache_counts AS k SELECT 0, sum(hits), sum(misses), sum(evictions) FROM counted HAVING count(*) > 0
        ON CONFLICT (owner) DO UPDATE SET hits = k.hits + excluded.hits, misses = k.misses + excluded.misses,
            evictions = k.evictions + excluded.evictions;
    DELETE FROM owners WHERE id = ANY (idle);
    RETURN freed;
END $$;

CREATE FUNCTION hand_back(me bigint, my_epoch bigint, keys bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    mine bigint[];
BEGIN
    PERFORM admit(me, my_epoch);
    mine := ARRAY(SELECT c.key FROM calls c
        WHERE c.owner = me AND c.ended_at IS NULL AND (keys IS NULL OR c.key = ANY (keys)) ORDER BY c.key FOR UPDATE);
    UPDATE calls SET owner = NULL WHERE key = ANY (mine);
    RETURN mine;
END $$;

CREATE FUNCTION sign_off(me bigint, my_epoch bigint, OUT keys bigint[], OUT freed boolean) LANGUAGE plpgsql AS $$
BEGIN
    keys := hand_back(me, my_epoch, NULL);
    freed := leave(ARRAY[me], true);
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

-- Is the artifact there? Then it stays, until a call of this owner has named it.
CREATE FUNCTION reserve(me bigint, what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM blobs WHERE name = what FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO puts AS p (name, owner, number, at) VALUES (what, me, 1, clock_timestamp())
        ON CONFLICT (name, owner) DO UPDATE SET number = p.number + 1, at = excluded.at;
    RETURN true;
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

-- Remove those artifacts of the given names that no call names and nobody has just put.
CREATE FUNCTION remove_blobs(names text[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    locked text[];
    ids bigint[];
BEGIN
    locked := ARRAY(SELECT b.name FROM blobs b WHERE b.name = ANY (names) ORDER BY b.name FOR UPDATE SKIP LOCKED);
    WITH gone AS (
        DELETE FROM blobs b WHERE b.name = ANY (locked)
            AND NOT EXISTS (SELECT FROM artifacts a WHERE a.name = b.name)
            AND NOT EXISTS (SELECT FROM puts p WHERE p.name = b.name) RETURNING b.id)
    SELECT coalesce(array_agg(gone.id), '{}') INTO ids FROM gone;
    DELETE FROM pieces WHERE blob = ANY (ids);
    RETURN cardinality(ids);
END $$;
