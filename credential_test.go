package parley_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestCredentialsAreNotShown: however credentials are formatted or logged, only their names
// are there.
func TestCredentialsAreNotShown(t *testing.T) {
	t.Parallel()
	const value = "a-value-of-no-shape"
	c := parley.Credentials{"CRM": value, "BANK": value}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "given", c, "in", struct{ C parley.Credentials }{c})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "given", c)
	all := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		all += fmt.Sprintf(verb, c) + fmt.Sprintf(verb, parley.Send{Message: "m", Credentials: c}) + fmt.Sprintf(verb, &c)
	}
	for _, form := range []string{value, fmt.Sprintf("%x", value)} {
		if strings.Contains(all, form) {
			t.Errorf("%q is in\n%s", form, all)
		}
	}
	if got := fmt.Sprint(c); got != "credentials [BANK CRM]" {
		t.Error(got)
	}
}

// TestCredentialsCheck: a value that could not be sent, or not be kept out of the log, is
// refused, and not repeated.
func TestCredentialsCheck(t *testing.T) {
	t.Parallel()
	many := parley.Credentials{}
	for i := range parley.MaxCredentials + 1 {
		many[fmt.Sprint("C", i)] = "secret"
	}
	const wrong = "wr-ong"
	for name, c := range map[string]struct {
		given parley.Credentials
		code  parley.Code // empty: it is right
		field string
	}{
		"none":                   {nil, "", ""},
		"right":                  {parley.Credentials{"CRM_2": "s3cr t", "x": strings.Repeat("é", 4096)}, "", ""},
		"too many":               {many, parley.CodeTooLarge, "credentials"},
		"a name with a space":    {parley.Credentials{"a b": wrong}, parley.CodeInvalid, "credentials"},
		"a value for a name":     {parley.Credentials{wrong: "s3cr3t"}, parley.CodeInvalid, "credentials"},
		"no name":                {parley.Credentials{"": wrong}, parley.CodeInvalid, "credentials"},
		"a digit first":          {parley.Credentials{"1a": wrong}, parley.CodeInvalid, "credentials"},
		"a long name":            {parley.Credentials{strings.Repeat("a", 65): wrong}, parley.CodeInvalid, "credentials"},
		"few bytes":              {parley.Credentials{"A": wrong[:5]}, parley.CodeInvalid, "credentials.A"},
		"many bytes":             {parley.Credentials{"A": wrong + strings.Repeat("x", parley.MaxCredential)}, parley.CodeTooLarge, "credentials.A"},
		"the end of a line":      {parley.Credentials{"A": wrong + "\nHost: x"}, parley.CodeInvalid, "credentials.A"},
		"a NUL":                  {parley.Credentials{"A": wrong + "\x00"}, parley.CodeInvalid, "credentials.A"},
		"a DEL":                  {parley.Credentials{"A": wrong + "\x7fx"}, parley.CodeInvalid, "credentials.A"},
		"a space before":         {parley.Credentials{"A": " " + wrong}, parley.CodeInvalid, "credentials.A"},
		"what is not Unicode":    {parley.Credentials{"A": wrong + "\xff"}, parley.CodeInvalid, "credentials.A"},
		"one of two that is bad": {parley.Credentials{"A": "s3cr3t", "B": wrong + "\t"}, parley.CodeInvalid, "credentials.B"},
	} {
		err := c.given.Check()
		if parley.CodeOf(err) != c.code && (err != nil || c.code != "") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil && (parley.Info(err).Field != c.field || strings.Contains(fmt.Sprintf("%+v %+v", err, parley.Info(err)), wrong[:5])) {
			t.Errorf("%s: %+v", name, parley.Info(err))
		}
	}
}

// TestParseCredentials: the header's values are joined, checked, and not repeated in an error.
func TestParseCredentials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header []string
		want   parley.Credentials
		bad    bool
	}{
		"none":            {nil, nil, false},
		"one":             {[]string{`{"A":"s3cr3t"}`}, parley.Credentials{"A": "s3cr3t"}, false},
		"two headers":     {[]string{`{"A":"s3cr3t"}`, `{"B":"s3cr3t","A":"another"}`}, parley.Credentials{"A": "another", "B": "s3cr3t"}, false},
		"an empty object": {[]string{`{}`}, parley.Credentials{}, false},
		"null":            {[]string{`null`}, nil, true},
		"text":            {[]string{`s3cr3t`}, nil, true},
		"a list":          {[]string{`["s3cr3t"]`}, nil, true},
		"a number":        {[]string{`{"A":531}`}, nil, true},
		"half":            {[]string{`{"A":"s3cr3t"`}, nil, true},
		"a short value":   {[]string{`{"A":"s3cr"}`}, nil, true},
		"empty":           {[]string{""}, nil, true},
	} {
		got, err := parley.ParseCredentials(c.header)
		if (err != nil) != c.bad || !c.bad && !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err != nil && strings.Contains(fmt.Sprintf("%+v %+v", err, parley.Info(err)), "s3cr") {
			t.Errorf("%s: %+v", name, err)
		}
	}
}
