-- Failures in a row are of one version of a tool. Those that are on record may be deaths of a host: they count no more.
-- Processes that opened the store before this migration give no version, which is one of its own.

ALTER TABLE standings ADD COLUMN tool_version text COLLATE "C" NOT NULL DEFAULT '';
