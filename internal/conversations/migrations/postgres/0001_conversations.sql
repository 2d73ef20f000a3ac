-- Conversations as clients keep them. messages is JSON, as it was sent: so not jsonb.

CREATE TABLE {chat_conversations} (
  id uuid PRIMARY KEY,
  title text NOT NULL,
  messages json NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  org_id text NOT NULL,
  user_id text NOT NULL
);
CREATE INDEX {chat_conversations_recent} ON {chat_conversations} (org_id, user_id, updated_at, id);

-- What each user has, for the limits.
CREATE TABLE {chat_totals} (
  org_id text NOT NULL, user_id text NOT NULL, count bigint NOT NULL, bytes bigint NOT NULL,
  PRIMARY KEY (org_id, user_id)
);
