-- An update that changes no indexed column writes no index at all (HOT). A step of a turn
-- changes a session's seq and bytes, so neither is in an index; what a user holds is added
-- up from the rows of the user's sessions. Nodes of the version before go on, though they
-- list slowly until they are gone.

-- A session is in one of two lists, which are merged for those who ask for both.
DROP INDEX parley.sessions_recent;
DROP INDEX parley.sessions_held;
CREATE INDEX sessions_unlisted ON parley.sessions (usr, org, updated, id) WHERE direct;

-- A session's keys are found by the session itself.
DROP INDEX parley.keys_of;
CREATE INDEX keys_of ON parley.keys (of) WHERE session = ''::bytea;
