package conversations

import (
	"context"

	"github.com/parley-server/parley/internal/seam"
)

// database is the table in SQLite or PostgreSQL.
type database struct{ t seam.Tables }

func (d *database) each(ctx context.Context, of owner, after mark, messages bool, visit func(Conversation) bool) error {
	query, args := `SELECT CAST(id AS text), title, created_at, updated_at`, []any{of.org, of.user}
	if messages {
		query += `, CAST(messages AS text)`
	}
	query += ` FROM {chat_conversations} WHERE org_id = ? AND user_id = ?`
	if after.id != "" {
		query += ` AND (updated_at, id) < (?, ?)`
		args = append(args, after.at, after.id)
	}
	return d.t.View(ctx, func(st seam.Statements) error {
		return st.Each(query+` ORDER BY updated_at DESC, id DESC`, func(scan func(...any) error) error {
			var c Conversation
			var body []byte
			to := []any{&c.ID, &c.Title, &c.CreatedAt, &c.UpdatedAt}
			if messages {
				to = append(to, &body)
			}
			if err := scan(to...); err != nil {
				return err
			}
			c.Messages = body
			if !visit(c) {
				return seam.ErrEnough
			}
			return nil
		}, args...)
	})
}

func (d *database) get(ctx context.Context, of owner, id string) (c Conversation, err error) {
	err = d.t.View(ctx, func(st seam.Statements) error {
		c, err = read(st, of, id)
		return err
	})
	return c, err
}

func read(st seam.Statements, of owner, id string) (c Conversation, err error) {
	err = st.Each(`SELECT CAST(id AS text), title, created_at, updated_at, CAST(messages AS text) FROM {chat_conversations} WHERE id = ? AND org_id = ? AND user_id = ?`,
		func(scan func(...any) error) error {
			var body []byte
			err := scan(&c.ID, &c.Title, &c.CreatedAt, &c.UpdatedAt, &body)
			c.Messages = body
			return err
		}, id, of.org, of.user)
	if err == nil && c.ID == "" {
		err = notFound(id)
	}
	return c, err
}

// count adds to what an owner has, and returns what it is then. The row is locked from then on,
// so changes of one owner come one after the other.
func count(st seam.Statements, of owner, n, bytes int64) (count, sum int64, err error) {
	err = st.Each(`INSERT INTO {chat_totals} AS t (org_id, user_id, count, bytes) VALUES (?, ?, ?, ?)
		ON CONFLICT (org_id, user_id) DO UPDATE SET count = t.count + excluded.count, bytes = t.bytes + excluded.bytes RETURNING count, bytes`,
		func(scan func(...any) error) error { return scan(&count, &sum) }, of.org, of.user, n, bytes)
	return count, sum, err
}

func (d *database) add(ctx context.Context, of owner, c Conversation) error {
	return d.t.Change(ctx, func(st seam.Statements) error {
		n, sum, err := count(st, of, 1, c.size())
		if err == nil {
			err = full(n, sum)
		}
		if err != nil {
			return err
		}
		_, err = st.Run(`INSERT INTO {chat_conversations} (id, title, messages, created_at, updated_at, org_id, user_id) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			c.ID, c.Title, string(c.Messages), c.CreatedAt, c.UpdatedAt, of.org, of.user)
		return err
	})
}

func (d *database) change(ctx context.Context, of owner, id string, edit func(c *Conversation)) error {
	return d.t.Change(ctx, func(st seam.Statements) error {
		if _, _, err := count(st, of, 0, 0); err != nil {
			return err
		}
		c, err := read(st, of, id)
		if err != nil {
			return err
		}
		old := c.size()
		edit(&c)
		_, sum, err := count(st, of, 0, c.size()-old)
		if err == nil && c.size() > old {
			err = full(0, sum)
		}
		if err != nil {
			return err
		}
		_, err = st.Run(`UPDATE {chat_conversations} SET title = ?, messages = ?, updated_at = ? WHERE id = ? AND org_id = ? AND user_id = ?`,
			c.Title, string(c.Messages), c.UpdatedAt, id, of.org, of.user)
		return err
	})
}

func (d *database) remove(ctx context.Context, of owner, id string) error {
	return d.t.Change(ctx, func(st seam.Statements) error {
		if _, _, err := count(st, of, 0, 0); err != nil {
			return err
		}
		c, err := read(st, of, id)
		if err != nil {
			return err
		}
		if _, err := st.Run(`DELETE FROM {chat_conversations} WHERE id = ? AND org_id = ? AND user_id = ?`, id, of.org, of.user); err != nil {
			return err
		}
		_, _, err = count(st, of, -1, -c.size())
		return err
	})
}
