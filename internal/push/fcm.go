package push

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
)

// fcm is Firebase Cloud Messaging, HTTP v1, with the operator's service account.
type fcm struct {
	url    string
	client *http.Client
	tokens oauth2.TokenSource
	now    func() time.Time
}

const fcmScope = "https://www.googleapis.com/auth/firebase.messaging"

func newFCM(o Options) (*fcm, error) {
	bad := func(why string) (*fcm, error) {
		return nil, parley.Errorf(parley.CodeInvalid, "push.fcm.credentials: %s", why).WithHint("the JSON file of a service account, as the Firebase console makes it: file:path")
	}
	var account struct {
		Type     string `json:"type"`
		Project  string `json:"project_id"`
		Email    string `json:"client_email"`
		Key      string `json:"private_key"`
		KeyID    string `json:"private_key_id"`
		TokenURI string `json:"token_uri"`
	}
	if err := json.Unmarshal(o.FCM, &account); err != nil {
		return bad("it is not JSON")
	}
	if account.Type != "service_account" || account.Project == "" || account.Email == "" || account.Key == "" {
		return bad("it is not that of a service account")
	}
	base, token := cmp.Or(o.FCMURL, "https://fcm.googleapis.com"), cmp.Or(account.TokenURI, "https://oauth2.googleapis.com/token")
	var hosts []string
	for _, text := range []string{base, token} {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return bad(strconv.Quote(text) + " is not a URL")
		}
		hosts = append(hosts, u.Hostname())
	}
	// The operator's file says where these are.
	guard, err := dial.New(hosts, nil)
	if err != nil {
		return nil, err
	}
	client := o.Client
	if client == nil {
		client = guard.Client(false)
	}
	client = &http.Client{Transport: client.Transport, CheckRedirect: client.CheckRedirect, Timeout: sendWithin}
	c := jwt.Config{Email: account.Email, PrivateKey: []byte(account.Key), PrivateKeyID: account.KeyID, Scopes: []string{fcmScope}, TokenURL: token}
	return &fcm{
		url: strings.TrimSuffix(base, "/") + "/v1/projects/" + url.PathEscape(account.Project) + "/messages:send", client: client, now: o.Now,
		tokens: c.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, client)),
	}, nil
}

func (f *fcm) send(ctx context.Context, n notice, d device) error {
	token, err := f.tokens.Token()
	if err != nil {
		return &verdict{text: "FCM's authorization server gives no token"} // its answer may have the assertion
	}
	s, now := n.show(), f.now()
	data := map[string]string{
		"id": s.ID, "type": s.Type, "tag": s.Tag, "app": s.App, "session": string(s.Session), "interaction": string(s.Interaction),
		"kind": s.Kind, "choices": strings.Join(s.Choices, ","), "close": strconv.FormatBool(s.Close),
	}
	message := map[string]any{
		"token": d.Token, "data": data,
		"android": map[string]any{"priority": map[bool]string{true: "HIGH", false: "NORMAL"}[n.urgency() == "high"], "ttl": strconv.Itoa(int(n.ttl(now).Seconds())) + "s", "collapse_key": n.topic()},
		"apns":    map[string]any{"headers": map[string]string{"apns-collapse-id": n.topic(), "apns-expiration": strconv.FormatInt(now.Add(n.ttl(now)).Unix(), 10)}},
	}
	if s.Close { // the app takes its notification away, and shows nothing
		message["apns"].(map[string]any)["payload"] = map[string]any{"aps": map[string]any{"content-available": 1}}
	} else {
		message["notification"] = map[string]string{"title": s.Title, "body": s.Body}
		message["android"].(map[string]any)["notification"] = map[string]string{"tag": s.Tag}
	}
	body, err := json.Marshal(map[string]any{"message": message})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	token.SetAuthHeader(r)
	resp, err := f.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var said struct {
		Error struct {
			Status  string `json:"status"`
			Message string `json:"message"`
			Details []struct {
				Type string `json:"@type"`
				Code string `json:"errorCode"`
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(raw, &said)
	code := said.Error.Status
	for _, detail := range said.Error.Details {
		if strings.HasSuffix(detail.Type, "fcm.v1.FcmError") {
			code = detail.Code
		}
	}
	v := &verdict{text: "FCM answered " + resp.Status + " " + parley.Cut(code, 60), after: retryAfter(resp.Header, now)}
	switch {
	case code == "UNREGISTERED", code == "INVALID_ARGUMENT" && strings.Contains(strings.ToLower(said.Error.Message), "registration token"):
		v.gone = true
	case resp.StatusCode == http.StatusTooManyRequests:
		v.after = max(v.after, time.Minute)
	case code == "INVALID_ARGUMENT", code == "SENDER_ID_MISMATCH":
		v.never = true
	}
	return v
}
