-- Conversations as clients keep them. messages is JSON, as it was sent.

CREATE TABLE {chat_conversations} (
  id TEXT PRIMARY KEY,          -- a UUID
  title TEXT NOT NULL,
  messages TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  org_id TEXT NOT NULL,
  user_id TEXT NOT NULL
);
CREATE INDEX {chat_conversations_recent} ON {chat_conversations} (org_id, user_id, updated_at, id);

-- What each user has, for the limits.
CREATE TABLE {chat_totals} (
  org_id TEXT NOT NULL, user_id TEXT NOT NULL, count INTEGER NOT NULL, bytes INTEGER NOT NULL,
  PRIMARY KEY (org_id, user_id)
);
