package homeassistant

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// refused marks an error answered by Home Assistant itself: the call arrived and did nothing.
type refused struct{ err *parley.Error }

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

func isRefused(err error) bool { _, ok := errors.AsType[*refused](err); return ok }

// lost marks a connection error: whether the call arrived is not known.
type lost struct{ err *parley.Error }

func (l *lost) Error() string { return l.err.Error() }
func (l *lost) Unwrap() error { return l.err }

func isLost(err error) bool { _, ok := errors.AsType[*lost](err); return ok }

// refusal converts an error of the WebSocket API into ours.
func refusal(code, message string) error {
	c, hint := parley.CodeTool, ""
	switch code {
	case "not_found":
		c = parley.CodeNotFound
	case "invalid_format", "service_validation_error", "invalid_start_time", "invalid_end_time", "invalid_entity_ids", "invalid_info", "template_error":
		c = parley.CodeInvalid
	case "unauthorized", "not_allowed":
		c, hint = parley.CodeForbidden, "the token's user is no administrator of Home Assistant; use a token of one"
	case "unknown_command", "not_supported":
		hint = "this Home Assistant does not know the command; it may be too old, or an integration is missing"
	case "timeout":
		c = parley.CodeTimeout
	case "home_assistant_error":
		hint = "the integration or the device failed; analyze_errors may show why"
	}
	e := parley.Errorf(c, "Home Assistant refused: %s (%s)", clip(message, 500), code)
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	return &refused{e}
}

func errToken(what string) *parley.Error {
	return parley.Errorf(parley.CodeUnauthenticated, "Home Assistant refuses the token: %s. It may have been revoked or mistyped", what).
		WithHint("make a new long-lived token in the profile of a Home Assistant user and set it (HOME_ASSISTANT_TOKEN); the old one is tried again now and then")
}

func errAway(format string, args ...any) *parley.Error {
	return parley.Errorf(parley.CodeUnavailable, format, args...).
		WithHint("check that Home Assistant runs and can be reached; Parley reconnects by itself").WithRetry(10 * time.Second)
}

func errMalformed(err error) *parley.Error {
	return parley.Errorf(parley.CodeTool, "Home Assistant sent a message that violates its protocol: %s", clip(err.Error(), 200)).
		WithHint("Parley has opened a new connection; try again, and check whether a proxy in between cuts messages off")
}

// waited is the error for a context that ended during a request.
func waited(ctx context.Context, what string, d time.Duration) *parley.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &parley.Error{Code: parley.CodeCancelled, Message: what + " was cancelled", Err: context.Cause(ctx)}
	}
	e := parley.Errorf(parley.CodeTimeout, "Home Assistant did not answer %s within %s", what, d.Round(time.Millisecond)).
		WithHint("it may be busy; ask for less, or try again")
	e.Err = context.Cause(ctx)
	return e
}

// clip shortens outside text to one line of about n bytes.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "�")), " ")
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
