package main

import (
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/redact"
)

// flags are those that every command has.
type flags struct {
	kit   *kit
	file  string
	addon string             // the add-on's options file; empty: not an add-on
	set   map[string]*string // by the setting's path
}

func (f *flags) register(root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVar(&f.file, "config", "", "settings `file` (default: parley.yaml of the working folder, if there is one)")
	f.set = map[string]*string{}
	for _, s := range []struct{ path, name, help string }{
		{"addr", "addr", "`address` to listen on (default 127.0.0.1:8000; PARLEY_ADDR)"},
		{"data", "data", "data `folder` (PARLEY_DATA)"},
		{"store", "store", "where logs are kept: sqlite, mem (kept in memory only), or the `address` of a PostgreSQL database, postgres://user@host/database;\na password is better in PARLEY_STORE or PGPASSWORD (default sqlite)"},
		{"apps", "apps", "`folder` of your own apps (PARLEY_APPS)"},
		{"model", "model", "`model` instead of those that apps and agents name (PARLEY_MODEL)"},
		{"log.level", "log-level", "debug, info, warn or error (PARLEY_LOG_LEVEL)"},
	} {
		f.set[s.path] = p.String(s.name, "", s.help)
	}
}

// settings reads all settings; only flags that were given count.
func (f *flags) settings(cmd *cobra.Command) (config.Settings, error) {
	given := map[string]string{}
	for path, v := range f.set {
		name := path
		if path == "log.level" {
			name = "log-level"
		}
		if cmd.Flags().Changed(name) {
			given[path] = *v
		}
	}
	s, err := config.Load(config.From{File: f.file, Flags: given, Addon: f.addon})
	if err != nil {
		return s, usage(err)
	}
	if s.Data, err = filepath.Abs(s.Data); err != nil {
		return s, usage(parley.Errorf(parley.CodeInvalid, "data: %w", err))
	}
	return s, nil
}

// newLogger logs to w as the settings say, with secrets removed.
func newLogger(s config.Settings, w io.Writer) *slog.Logger {
	w = redact.New(knownSecrets(s)...).Writer(w)
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Log.Level)); err != nil {
		level = slog.LevelInfo // config has checked it
	}
	o := &slog.HandlerOptions{Level: level}
	if s.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
