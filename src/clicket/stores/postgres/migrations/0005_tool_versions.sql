-- Failures in a row are of one version of a tool. Those that are on record may be deaths of a host: they count no more.
-- Processes that opened the store before this migration give no version, which is one of its own.

ALTER TABLE standings ADD COLUMN tool_version text COLLATE "C" NOT NULL DEFAULT '';

-- As before, and failures of another version than the stored ones start anew.
CREATE OR REPLACE FUNCTION count_tallies(me bigint, runs json, sums json, fresh boolean[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF runs IS NOT NULL THEN
        INSERT INTO standings AS s (place, tool, caller, thread, completions, failures, consecutive_failures,
                first_success_at, last_success_at, last_failure_at, last_error, updated_at, version, mended, tool_version)
            SELECT decode(r.place, 'hex'), r.tool, r.caller, r.thread, r.completions, r.failures, r.streak,
                r.first_success_at, r.last_success_at, r.last_failure_at, r.last_error, r.updated_at, r.writes, r.mended,
                coalesce(r.tool_version, '')
            FROM json_to_recordset(runs) AS r(unit integer, place text, tool text, caller text, thread text,
                completions bigint, failures bigint, streak bigint, first_success_at float8, last_success_at float8,
                last_failure_at float8, last_error text, updated_at float8, writes bigint, mended boolean,
                tool_version text)
            WHERE fresh[r.unit]
            ON CONFLICT (place, tool) DO UPDATE SET completions = s.completions + excluded.completions,
                failures = s.failures + excluded.failures,
                consecutive_failures = CASE WHEN excluded.mended
                    OR (excluded.failures > 0 AND excluded.tool_version <> s.tool_version) THEN 0 ELSE s.consecutive_failures END
                    + excluded.consecutive_failures,
                first_success_at = coalesce(s.first_success_at, excluded.first_success_at),
                last_success_at = coalesce(excluded.last_success_at, s.last_success_at),
                last_failure_at = coalesce(excluded.last_failure_at, s.last_failure_at),
                last_error = CASE WHEN excluded.failures > 0 THEN excluded.last_error ELSE s.last_error END,
                tool_version = CASE WHEN excluded.failures > 0 THEN excluded.tool_version ELSE s.tool_version END,
                updated_at = excluded.updated_at, version = s.version + excluded.version, mended = excluded.mended;
    END IF;
    INSERT INTO figures AS f
        SELECT me, decode(r.label, 'hex'), r.caller, r.tool, r.outcome, r.error, r.bucket, r.count, r.seconds, r.least, r.most
        FROM json_to_recordset(sums) AS r(unit integer, label text, caller text, tool text, outcome text, error text,
            bucket integer, count bigint, seconds float8, least float8, most float8)
        WHERE fresh[r.unit]
        ON CONFLICT (owner, label) DO UPDATE SET count = f.count + excluded.count, seconds = f.seconds + excluded.seconds,
            least = least(f.least, excluded.least), most = greatest(f.most, excluded.most);
END $$;

-- As before, and with the version.
CREATE OR REPLACE FUNCTION put_standing(
    me bigint, my_epoch bigint, my_ticket bigint, its_place text, its_caller text, its_thread text, wanted bigint, given json
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    PERFORM admit(me, my_epoch);
    SELECT * INTO g FROM json_to_record(given) AS j(tool text, completions bigint, failures bigint,
        consecutive_failures bigint, first_success_at float8, last_success_at float8, last_failure_at float8,
        last_error text, status text, reason text, "by" text, announced text, updated_at float8,
        tool_version text);
    IF EXISTS (SELECT FROM standings s WHERE s.place = decode(its_place, 'hex') AND s.tool = g.tool AND s.ticket = my_ticket)
    THEN
        RETURN true; -- it was written, and only the answer was lost
    END IF;
    IF wanted = 0 THEN
        INSERT INTO standings (place, tool, caller, thread, completions, failures, consecutive_failures, first_success_at,
                last_success_at, last_failure_at, last_error, status, reason, "by", announced, updated_at, version, ticket,
                tool_version)
            VALUES (decode(its_place, 'hex'), g.tool, its_caller, its_thread, g.completions, g.failures,
                g.consecutive_failures, g.first_success_at, g.last_success_at, g.last_failure_at, g.last_error, g.status,
                g.reason, g."by", g.announced, g.updated_at, 1, my_ticket, coalesce(g.tool_version, ''))
            ON CONFLICT DO NOTHING;
    ELSE
        UPDATE standings s SET completions = g.completions, failures = g.failures,
                consecutive_failures = g.consecutive_failures, first_success_at = g.first_success_at,
                last_success_at = g.last_success_at, last_failure_at = g.last_failure_at, last_error = g.last_error,
                status = g.status, reason = g.reason, "by" = g."by", announced = g.announced, updated_at = g.updated_at,
                version = wanted + 1, ticket = my_ticket, tool_version = coalesce(g.tool_version, '')
            WHERE s.place = decode(its_place, 'hex') AND s.tool = g.tool AND s.version = wanted;
    END IF;
    RETURN FOUND;
END $$;
