package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/nearest"
)

// Folder is a folder with its name for messages. Its FS shows the folder's current
// content. A missing folder is only noticed when something is opened.
type Folder struct {
	FS   fs.FS
	Name string
}

// LoadApps reads the enabled apps of the built-in folders and of Settings.Apps, sorted by name.
// A built-in folder has a sub-folder for each app, or is itself the folder of one app, whose
// app.yaml must then give the name. The error names every mistake of every app.
func (s Settings) LoadApps(builtin []fs.FS, known Known) ([]*App, error) {
	dirs, err := s.appFolders(builtin)
	if err != nil {
		return nil, err
	}
	errs := s.misnamed(dirs)
	var apps []*App
	for _, r := range s.read(dirs, known) {
		if r.Err != nil {
			errs = append(errs, r.Err)
			continue
		}
		apps = append(apps, r.App)
	}
	if len(errs) == 0 && len(apps) == 0 {
		errs = append(errs, parley.Errorf(parley.CodeInvalid, "there is no app to serve"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithHint("%s", parley.Info(errs[0]).Hint)
	}
	return apps, nil
}

// Read is one app as read, with or without mistakes.
type Read struct {
	Name string
	App  *App  // nil if its file could not be read at all; with Err, as much as could be read
	Err  error // its cause is [Mistakes]
	// Files are the files in its folder that were looked for, including missing ones. Nil for
	// an app inside the program, whose files do not change.
	Files []string
}

// recorder notes which files of a folder are looked for.
type recorder struct {
	fs.FS
	mu    sync.Mutex
	names map[string]bool // nil: nothing is noted any more
}

// Open implements fs.FS.
func (r *recorder) Open(name string) (fs.File, error) {
	r.mu.Lock()
	if r.names != nil {
		r.names[name] = true
	}
	r.mu.Unlock()
	return r.FS.Open(name)
}

func (r *recorder) end() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Sorted(maps.Keys(r.names))
	r.names = nil
	return list
}

// ReadApps is LoadApps for callers that want all mistakes: each app with its mistakes and
// as much of it as could be read. The error has the mistakes in the settings.
func (s Settings) ReadApps(builtin []fs.FS, known Known) ([]Read, error) {
	dirs, err := s.appFolders(builtin)
	if err != nil {
		return nil, err
	}
	return s.read(dirs, known), errors.Join(s.misnamed(dirs)...)
}

func (s Settings) read(dirs map[string]Folder, known Known) []Read {
	var list []Read
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		if len(s.Enabled) > 0 && !slices.Contains(s.Enabled, name) {
			continue
		}
		dir := dirs[name]
		if s.Apps == "" || dir.Name != filepath.Join(s.Apps, name) {
			a, err := s.loadApp(name, dir, known)
			list = append(list, Read{Name: name, App: a, Err: err})
			continue
		}
		rec := &recorder{FS: dir.FS, names: map[string]bool{}}
		dir.FS = rec
		a, err := s.loadApp(name, dir, known)
		files := rec.end()
		if a != nil {
			a.Reads = files
		}
		list = append(list, Read{name, a, err, files})
	}
	return list
}

// misnamed returns an error for each setting that names an app that does not exist.
func (s Settings) misnamed(dirs map[string]Folder) (errs []error) {
	for _, set := range []struct {
		where string
		names []string
	}{{"enabled", s.Enabled}, {"app", slices.Sorted(maps.Keys(s.App))}, {"pages", slices.Sorted(maps.Keys(s.Pages))}} {
		for _, name := range set.names {
			if _, ok := dirs[name]; !ok {
				errs = append(errs, parley.Errorf(parley.CodeInvalid, "%s: there is no app %q%s", set.where, name, nearest.Hint(name, slices.Collect(maps.Keys(dirs)))).
					WithHint("%s", s.whereApps()))
			}
		}
	}
	return errs
}

// whereApps says where apps are looked for.
func (s Settings) whereApps() string {
	if s.Apps == "" {
		return "only the built-in apps are known; name the folder of your own with --apps or PARLEY_APPS"
	}
	return "apps of your own are the folders in " + s.Apps
}

// AppNames lists the existing apps, whether enabled or not, sorted.
func (s Settings) AppNames(builtin []fs.FS) ([]string, error) {
	dirs, err := s.appFolders(builtin)
	return slices.Sorted(maps.Keys(dirs)), err
}

// Disabled names the existing apps that Settings.Enabled leaves out, sorted.
func (s Settings) Disabled(builtin []fs.FS) ([]string, error) {
	dirs, err := s.appFolders(builtin)
	if err != nil || len(s.Enabled) == 0 {
		return nil, err
	}
	for _, name := range s.Enabled {
		delete(dirs, name)
	}
	return slices.Sorted(maps.Keys(dirs)), nil
}

// appFolders finds the folder of each app, built-in and the user's.
func (s Settings) appFolders(builtin []fs.FS) (map[string]Folder, error) {
	dirs := map[string]Folder{}
	for _, all := range builtin {
		if all == nil {
			continue
		}
		err := folders(all, func(name string, dir fs.FS) error {
			if _, ok := dirs[name]; ok {
				return fmt.Errorf("two of them are named %s", name)
			}
			dirs[name] = Folder{dir, "built-in apps/" + name}
			return nil
		})
		if err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "built-in apps: %w", err)
		}
	}
	if s.Apps != "" {
		err := subfolders(os.DirFS(s.Apps), func(name string, dir fs.FS) error {
			dirs[name] = Folder{dir, filepath.Join(s.Apps, name)}
			return nil
		})
		if err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "apps: %w", plainError(s.Apps, err)).
				WithHint("name a folder that holds one folder for each app")
		}
	}
	return dirs, nil
}

// folders calls f with each folder of fsys that is an app, or with fsys itself if it is an app.
func folders(fsys fs.FS, f func(name string, dir fs.FS) error) error {
	raw, err := readFile(fsys, AppFile, maxAppFile)
	if _, there := fs.Stat(fsys, AppFile); there != nil {
		return subfolders(fsys, f)
	}
	var file struct {
		Name string `yaml:"name"`
	}
	if err == nil {
		err = yaml.Unmarshal(raw, &file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", AppFile, err)
	}
	if file.Name == "" {
		return fmt.Errorf("%s has no name:, which is required because its folder has no name", AppFile)
	}
	return f(file.Name, fsys)
}

func subfolders(fsys fs.FS, f func(name string, dir fs.FS) error) error {
	entries, err := fs.ReadDir(fsys, ".")
	for _, e := range entries {
		if _, err := fs.Stat(fsys, path.Join(e.Name(), AppFile)); err != nil {
			continue
		}
		if err := f(e.Name(), sub(fsys, e.Name())); err != nil {
			return err
		}
	}
	return err
}

// sub is fs.Sub for names that are known to be valid.
func sub(fsys fs.FS, dir string) fs.FS {
	f, err := fs.Sub(fsys, dir)
	if err != nil {
		panic("config: " + err.Error())
	}
	return f
}

// folders finds the data folders of the app and of its toolsets.
func (a *App) folders(s Settings, f appFile) {
	a.Data = a.folder(orString(f.Data, "data"), "data")
	own := s.App[a.Name].Data
	if v, ok := s.env(Variable(a.Name + ".data")); ok && v != "" {
		own = home(v, s.env)
	}
	if own != "" {
		a.Data = Folder{os.DirFS(own), own}
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Tools.Others)) {
		t := Toolset{Kind: kind, Data: a.Data, URL: f.Tools.Others[kind].URL, Token: f.Tools.Others[kind].Token}
		if s.App[a.Name].URL != "" {
			t.URL, t.Token = s.App[a.Name].URL, s.App[a.Name].Token
		}
		if dir := f.Tools.Others[kind].Data; dir != "" && own == "" {
			t.Data = a.folder(dir, "tools."+kind+".data")
		}
		a.Toolsets = append(a.Toolsets, t)
	}
	a.services(f.Tools.HTTP)
	a.apis(f.Tools.OpenAPI)
	a.commands(f.Tools.Command)
	a.servers(f.Tools.MCP)
	a.web(s, f.Tools.Web)
	a.rest(s, f.Tools.REST)
	a.bash(s, f.Tools.Bash)
	a.clients(f.Tools.Client)
	a.callers(f.CallerTools)
}
