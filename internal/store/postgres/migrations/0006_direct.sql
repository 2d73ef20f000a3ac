-- Sessions of direct calls are in no list, unless asked for, and are deleted after a
-- while: each list has an index of its own, so that thousands of them cost nothing.
--
-- Within a JSON string no quote stands without a backslash before it.
ALTER TABLE parley.sessions ADD COLUMN direct boolean NOT NULL GENERATED ALWAYS AS (position(',"direct":true'::bytea in info) > 0) STORED;
CREATE INDEX sessions_listed ON parley.sessions (usr, org, updated, id) WHERE NOT direct;
CREATE INDEX sessions_direct ON parley.sessions (app, status, updated, id) WHERE NOT held AND direct;
DROP INDEX parley.sessions_held;
CREATE INDEX sessions_held ON parley.sessions (usr, org, direct, bytes);
