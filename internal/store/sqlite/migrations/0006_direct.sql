-- Sessions of direct calls are in no list, unless asked for, and are deleted after a
-- while: each list has an index of its own, so that thousands of them cost nothing.
--
-- Within a JSON string no quote stands without a backslash before it.
ALTER TABLE sessions ADD COLUMN direct INTEGER GENERATED ALWAYS AS (instr(info, CAST(',"direct":true' AS BLOB)) > 0) VIRTUAL;
CREATE INDEX sessions_listed ON sessions (user, org, updated, id) WHERE direct = 0;
CREATE INDEX sessions_direct ON sessions (app, status, updated, id) WHERE held = 0 AND direct = 1;
DROP INDEX sessions_held;
CREATE INDEX sessions_held ON sessions (user, org, direct, bytes);
