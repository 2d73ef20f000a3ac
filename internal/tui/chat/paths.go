package chat

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

const attachPrefix = "/attach "

// pathList is what is in a folder of this machine.
type pathList struct {
	dir     string // as it was written
	names   []string
	loading bool
}

// maxNames is how many names of a folder are read.
const maxNames = 5000

// offerPaths offers files of this machine for the beginning of a path.
func (m *model) offerPaths(typed string) *menu {
	dir, base := filepath.Split(typed)
	me := &menu{from: len(attachPrefix), paths: true}
	if m.paths == nil || m.paths.dir != dir {
		m.paths = &pathList{dir: dir, loading: true}
		return me
	}
	for _, name := range m.paths.names {
		if !strings.HasPrefix(strings.ToLower(name), strings.ToLower(base)) || strings.HasPrefix(name, ".") && base == "" {
			continue
		}
		me.rows = append(me.rows, offer{text: dir + name, label: oneLine(name), into: strings.HasSuffix(name, "/")})
		if len(me.rows) == 200 {
			break
		}
	}
	if len(me.rows) == 0 && !m.paths.loading {
		return nil
	}
	return me
}

// readPaths reads the folder whose files are offered.
func (m *model) readPaths() tea.Cmd {
	l := m.paths
	if l == nil || !l.loading || l.names != nil {
		return nil
	}
	l.names = []string{}
	dir := l.dir
	if rest, ok := strings.CutPrefix(dir, "~/"); ok && m.o.Env("HOME") != "" {
		dir = filepath.Join(m.o.Env("HOME"), rest)
	}
	if dir == "" {
		dir = "."
	}
	return func() tea.Msg {
		names := namesIn(dir)
		return doneMsg(func(m *model) tea.Cmd {
			if l.names, l.loading = names, false; m.paths == l {
				m.complete()
			}
			return nil
		})
	}
}

// namesIn are the names of the ordinary files and of the folders in a folder, the latter with a slash.
func namesIn(dir string) []string {
	names := []string{}
	in, err := os.Open(dir)
	if err != nil {
		return names
	}
	defer in.Close()
	list, _ := in.ReadDir(maxNames)
	for _, e := range list {
		name, mode := e.Name(), e.Type()
		if mode&os.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			mode = info.Mode().Type()
		}
		switch {
		case mode.IsDir():
			names = append(names, name+"/")
		case mode.IsRegular() && clean(name) == name: // another name cannot be typed
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return names
}
