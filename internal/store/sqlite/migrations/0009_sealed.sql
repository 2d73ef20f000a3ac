-- What is kept for users and is encrypted with a key that is not in this database.

CREATE TABLE IF NOT EXISTS sealed (
  user TEXT NOT NULL, org TEXT NOT NULL, app TEXT NOT NULL, workspace TEXT NOT NULL, name TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (user, org, app, workspace, name)
) WITHOUT ROWID;
