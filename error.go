package parley

import (
	"errors"
	"fmt"
	"time"
)

// Code classifies an error for programs. Codes appear on every wire; new ones may be
// added, none is ever removed.
type Code string

const (
	CodeInvalid         Code = "invalid"          // the request is malformed; the message names the field
	CodeNotFound        Code = "not_found"        // it does not exist, or belongs to someone else
	CodeUnauthenticated Code = "unauthenticated"  // no identity, or an invalid one
	CodeForbidden       Code = "forbidden"        // the identity is known but not allowed to do this
	CodeBusy            Code = "busy"             // a turn is running or the queue is full
	CodeConflict        Code = "conflict"         // the state is not the one the command expects
	CodeKeyReused       Code = "key_reused"       // an idempotency key was used again with another body
	CodeTooLarge        Code = "too_large"        // a body, message or result exceeds its limit
	CodeRateLimited     Code = "rate_limited"     // too many requests; RetryAfter says when to try again
	CodeQuota           Code = "quota"            // the user's money for the day is spent, and RetryAfter says when there is more; or the user's storage is full
	CodeUnavailable     Code = "unavailable"      // temporary: no disk space, no database, or the server is shutting down
	CodeFenced          Code = "fenced"           // another node now owns the session
	CodeCondensed       Code = "condensed"        // the data was condensed; the message names the archive
	CodeDeleted         Code = "deleted"          // the session that an idempotency key made was deleted since
	CodeUpgradeRequired Code = "upgrade_required" // the log contains something newer than this binary
	CodeTimeout         Code = "timeout"
	CodeCancelled       Code = "cancelled"
	CodeModel           Code = "model_error" // the model or its provider failed
	CodeTool            Code = "tool_error"
	CodeInternal        Code = "internal"
)

// Error is the one error shape of Parley. On every wire it is
// {"error":{"code","message","hint","field"}}.
type Error struct {
	Code       Code          // for programs
	Message    string        // for people: what was wrong and where; never a secret or a stack trace
	Hint       string        // what to do now
	Field      string        // the field at fault, if there is one
	RetryAfter time.Duration // 0: no advice
	// Current is the present version of what a request was based on another version of.
	Current Digest
	Err     error // the cause, for logs
}

// Errorf makes an Error. An error formatted with %w becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint returns e with the hint set.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithField returns e with the field at fault set.
func (e *Error) WithField(field string) *Error {
	c := *e
	c.Field = field
	return &c
}

// WithRetry returns e with the advice to retry after d.
func (e *Error) WithRetry(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// WithCurrent returns e with the present version set.
func (e *Error) WithCurrent(version Digest) *Error {
	c := *e
	c.Current = version
	return &c
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Code: c}) compare codes only.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t.Message == e.Message)
}

// Sentinels for errors.Is; each matches any Error of its code.
var (
	ErrNotFound = &Error{Code: CodeNotFound}
	ErrConflict = &Error{Code: CodeConflict}
	ErrFenced   = &Error{Code: CodeFenced}
	ErrBusy     = &Error{Code: CodeBusy}
)

// CodeOf returns the code of the first Error in err's chain, CodeInternal if there is
// none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// ErrorInfo is the form of an Error in events and on the wires.
type ErrorInfo struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	Hint         string `json:"hint,omitempty"`
	Field        string `json:"field,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	// Current is the present version of a file, when the request was based on another.
	Current Digest `json:"current,omitempty"`
}

// Info returns err as clients may see it. An error that is not an Error becomes
// CodeInternal with a general sentence that reveals nothing; log the original.
func Info(err error) ErrorInfo {
	if e, ok := errors.AsType[*Error](err); ok {
		return ErrorInfo{Code: e.Code, Message: e.Message, Hint: e.Hint, Field: e.Field, RetryAfterMS: e.RetryAfter.Milliseconds(), Current: e.Current}
	}
	return ErrorInfo{Code: CodeInternal, Message: "something went wrong in the server", Hint: "the server's log has the cause"}
}
