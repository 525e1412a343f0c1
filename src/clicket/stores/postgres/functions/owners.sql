-- Owners: leases, epochs, and what happens to the calls of an owner that leaves.

CREATE FUNCTION gate(me bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT hashtextextended('clicket owner ' || current_schema() || ' ' || me, 0);
$$;

-- An owner that finds its own lease run out was paused, or this server's clock was set forward. It cannot tell which, and in
-- the second case all leases look expired: for the length of a lease it declares no other owner dead by its lease.
CREATE FUNCTION renew(me bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE owners SET renewed = clock_timestamp(), judges_from = CASE
        WHEN renewed + make_interval(secs => lease) < clock_timestamp()
            THEN clock_timestamp() + make_interval(secs => lease)
        ELSE least(judges_from, clock_timestamp() + make_interval(secs => lease)) END
    WHERE id = me;
$$;

-- Each write carries the epoch of its owner. Taking the next epoch waits for the writes of that owner that are under way; a
-- write that arrives later with an old epoch is refused.
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

-- Dead owners: those that the caller knows to be dead, those whose lease has expired, and those that have calls but no row.
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

-- Remove owners; their figures are kept under owner 0.
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
    -- Those of an owner that is not dead after all may be locked: they stay with it, and are counted as well.
    WITH kept AS (SELECT owner, label FROM figures WHERE owner = ANY (idle) AND owner <> 0 ORDER BY owner, label
            FOR UPDATE SKIP LOCKED),
        counted AS (DELETE FROM figures f USING kept k WHERE f.owner = k.owner AND f.label = k.label RETURNING f.*)
    INSERT INTO figures AS f
        SELECT 0, c.label, min(c.caller), min(c.tool), min(c.outcome), min(c.error), min(c.bucket), sum(c.count),
            sum(c.seconds), min(c.least), max(c.most)
        FROM counted c GROUP BY c.label ORDER BY c.label
        ON CONFLICT (owner, label) DO UPDATE SET count = f.count + excluded.count, seconds = f.seconds + excluded.seconds,
            least = least(f.least, excluded.least), most = greatest(f.most, excluded.most);
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
