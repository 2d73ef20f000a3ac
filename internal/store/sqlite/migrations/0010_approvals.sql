-- What users decided about programs that files of theirs would run.

CREATE TABLE IF NOT EXISTS approvals (
  user TEXT NOT NULL, org TEXT NOT NULL, app TEXT NOT NULL, workspace TEXT NOT NULL, name TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (user, org, app, workspace, name)
) WITHOUT ROWID;
