package program

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tui"
)

// credentialFlag adds the flag that names credentials. Their values are never arguments,
// because every user of the machine can see arguments.
func credentialFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVar(names, "credential", nil,
		"`NAME` of a credential for the tools; its value is read from the variable NAME, or asked for; NAME=env:VARIABLE or NAME=file:PATH read it from elsewhere; may be repeated")
}

// credentials reads the credentials that the flags name. It asks for missing values on t; nil:
// it does not ask.
func credentials(ctx context.Context, flags []string, t *tui.Terminal) (parley.Credentials, error) {
	given := parley.Credentials{}
	for _, flag := range flags {
		name, from, _ := strings.Cut(flag, "=")
		if !parley.CredentialName(name) {
			return nil, usage(parley.Errorf(parley.CodeInvalid, "--credential needs a name of letters, digits and _").WithHint("write it like CRM_TOKEN, or CRM_TOKEN=file:/path"))
		}
		v, err := credential(ctx, name, from, t)
		if err != nil {
			return nil, err
		}
		given[name] = v
	}
	if err := given.Check(); err != nil {
		return nil, usage(err)
	}
	if len(given) == 0 {
		return nil, nil
	}
	return given, nil
}

func credential(ctx context.Context, name, from string, t *tui.Terminal) (string, error) {
	missing := func(format string, args ...any) error {
		return usage(parley.Errorf(parley.CodeInvalid, "the credential "+name+": "+format, args...))
	}
	kind, where, _ := strings.Cut(from, ":")
	switch {
	case from == "":
		if v, ok := os.LookupEnv(name); ok {
			return v, nil
		}
		if t == nil || !t.CanAsk {
			return "", missing("the variable %s is not set, and there is no terminal to ask on", name)
		}
		v, err := t.Secret(ctx, name)
		if errors.Is(err, tui.ErrLeft) {
			err = missing("nothing was typed")
		}
		return v, err
	case kind == "env":
		if v, ok := os.LookupEnv(where); ok {
			return v, nil
		}
		return "", missing("the variable %s is not set", where)
	case kind == "file":
		f, err := os.Open(where)
		if err != nil {
			return "", missing("%w", err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, parley.MaxCredential+2))
		if err != nil {
			return "", missing("%w", err)
		}
		return strings.TrimRight(string(raw), "\r\n"), nil
	}
	// The value may be the secret itself, so it is not repeated.
	return "", missing("write env:VARIABLE or file:PATH after =; other users can see a value in the arguments")
}
