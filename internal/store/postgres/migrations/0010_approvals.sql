-- What users decided about programs that files of theirs would run.

CREATE TABLE IF NOT EXISTS approvals (
  usr bytea NOT NULL, org bytea NOT NULL, app bytea NOT NULL, workspace bytea NOT NULL, name bytea NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (usr, org, app, workspace, name)
);
