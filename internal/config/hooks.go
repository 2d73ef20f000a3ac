package config

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/parley-server/parley/internal/extension"
	"github.com/parley-server/parley/internal/hook"
)

// hooks checks the hooks of the app's own folder.
func (a *App) hooks() {
	for _, name := range extension.SettingsFiles {
		if _, err := fs.Stat(a.Files, name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		d := &decoder{file: path.Join(filepath.ToSlash(a.Where), name)}
		text, err := readFile(a.Files, name, maxAppFile)
		if err != nil {
			d.bad(1, "", "%s", err)
		}
		f := hook.Parse(text)
		for _, m := range f.Mistakes {
			if err == nil && !m.Mild {
				d.bad(m.Line, "", "%s", m.Text)
			}
		}
		for _, e := range f.Entries {
			if e.Command != "" && a.Dir == "" {
				d.bad(e.Line, "", "an app inside the program has no folder to run hooks in")
			}
		}
		a.d.wrong = append(a.d.wrong, d.wrong...)
	}
}
