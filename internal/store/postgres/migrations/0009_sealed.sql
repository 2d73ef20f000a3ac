-- What is kept for users and is encrypted with a key that is not in this database.

CREATE TABLE IF NOT EXISTS sealed (
  usr bytea NOT NULL, org bytea NOT NULL, app bytea NOT NULL, workspace bytea NOT NULL, name bytea NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (usr, org, app, workspace, name)
);
