package program

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
	red := redact.New(knownSecrets(s)...)
	w = red.Writer(w)
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Log.Level)); err != nil {
		level = slog.LevelInfo // config has checked it
	}
	o := &slog.HandlerOptions{Level: level}
	if s.Log.Format == "json" {
		return slog.New(redacting{slog.NewJSONHandler(w, o), red})
	}
	return slog.New(redacting{slog.NewTextHandler(w, o), red})
}

// redacting is a handler whose lines pass a redactor.
type redacting struct {
	slog.Handler
	red *redact.Redactor
}

// redactorOf is the redactor behind a logger of newLogger, so that what becomes known later
// is kept out of the log, too; another logger has none.
func redactorOf(log *slog.Logger, s config.Settings) *redact.Redactor {
	if h, ok := log.Handler().(redacting); ok {
		return h.red
	}
	return redact.New(knownSecrets(s)...)
}
