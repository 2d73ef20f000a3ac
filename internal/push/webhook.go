package push

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// message is the body of a webhook, as the Standard Webhooks specification advises.
type message struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"`
	Data      messageData `json:"data"`
}

type messageData struct {
	Device      parley.DeviceID   `json:"device_id"`
	User        string            `json:"user"`
	Org         string            `json:"org,omitempty"`
	App         string            `json:"app,omitempty"`
	Session     parley.SessionID  `json:"session_id,omitempty"`
	Title       string            `json:"title,omitempty"`
	Turn        parley.TurnID     `json:"turn_id,omitempty"`
	Seq         int64             `json:"seq,omitempty"`
	Status      parley.TurnStatus `json:"status,omitempty"`
	Text        string            `json:"text,omitempty"`
	Interaction *about            `json:"interaction,omitempty"`
}

// sendWebhook sends a notice by the Standard Webhooks specification. Redirects are failures:
// they could lead where the owner did not say.
func (p *Push) sendWebhook(ctx context.Context, of parley.Principal, n notice, d device) error {
	body, err := json.Marshal(message{n.Type, n.At, messageData{
		d.ID, of.User, of.Org, n.App, n.Session, n.Title, n.Turn, n.Seq, n.Status, n.Text, n.Interaction,
	}})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(body))
	if err != nil {
		return &verdict{text: "its URL cannot be used", never: true}
	}
	now := p.o.Now()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Parley")
	r.Header.Set("Webhook-Id", n.id())
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("Webhook-Signature", signatures(d.Signs, n.id(), now, body))
	resp, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 16<<10)) // so that the connection can be used again
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusGone:
		return &verdict{text: "410 Gone", gone: true}
	}
	return &verdict{text: resp.Status, after: retryAfter(resp.Header, now)}
}

// signatures signs a message with all secrets that are in force.
func signatures(list []secret, id string, now time.Time, body []byte) string {
	var out []string
	for _, s := range list {
		if !s.Until.IsZero() && now.After(s.Until) {
			continue
		}
		mac := hmac.New(sha256.New, keyOf(s.Text))
		mac.Write([]byte(id + "." + strconv.FormatInt(now.Unix(), 10) + "."))
		mac.Write(body)
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(out, " ")
}
