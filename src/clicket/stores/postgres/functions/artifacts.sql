-- Artifacts: reserved while they are put, pinned, removed.

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

-- Is the artifact there? Then it stays until that time, or until a later one that it was pinned to before.
CREATE FUNCTION pin(what text, keep_until float8) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM blobs WHERE name = what FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO pins AS p (name, until) VALUES (what, keep_until)
        ON CONFLICT (name) DO UPDATE SET until = greatest(p.until, excluded.until);
    RETURN true;
END $$;

-- Remove those artifacts of the given names that no call names, that no process is putting, and that are not pinned.
CREATE FUNCTION drop_blobs(names text[], OUT number integer, OUT weight bigint) LANGUAGE plpgsql AS $$
DECLARE
    locked text[];
    ids bigint[];
BEGIN
    locked := ARRAY(SELECT b.name FROM blobs b WHERE b.name = ANY (names) ORDER BY b.name FOR UPDATE SKIP LOCKED);
    WITH gone AS (
        DELETE FROM blobs b WHERE b.name = ANY (locked)
            AND NOT EXISTS (SELECT FROM artifacts a WHERE a.name = b.name)
            AND NOT EXISTS (SELECT FROM puts p WHERE p.name = b.name)
            AND NOT EXISTS (SELECT FROM pins p WHERE p.name = b.name) RETURNING b.id, b.size)
    SELECT coalesce(array_agg(gone.id), '{}'), count(*), coalesce(sum(gone.size), 0) INTO ids, number, weight FROM gone;
    DELETE FROM pieces WHERE blob = ANY (ids);
END $$;
