package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/telemetry"
)

// withFiles lists the apps whose sessions are also kept as files.
func withFiles(list []*config.App) map[string]bool {
	on := map[string]bool{}
	for _, a := range list {
		if a.LiveFiles {
			on[a.Name] = true
		}
	}
	return on
}

// liveFiles starts to keep the files of sessions; nil if no app keeps files and no files
// are left over.
func (p *plan) liveFiles(log *slog.Logger, reader *eventlog.Reader, store seam.Store, kept *archive.Folder, counts *telemetry.Metrics) *livefiles.Files {
	on := withFiles(p.apps)
	if len(on) == 0 && !livefiles.Exist(p.settings.Data) {
		return nil
	}
	every := time.Duration(0)
	for _, a := range p.apps {
		if d := time.Duration(a.FlushEvery); on[a.Name] && d > 0 && (every == 0 || d < every) {
			every = d
		}
	}
	return livefiles.Start(livefiles.Options{
		Data: p.folder, Log: reader, Store: store, Archived: kept.Blob, Apps: on, Meta: p.meta, Every: every,
		Failed: counts.FilesFailed, Behind: counts.FilesBehind, Logger: log,
	})
}

// shelf is the archive of condensed steps. What else is kept of sessions beside the store goes
// with it: their live files, and what their workspaces' files contained.
type shelf struct {
	*archive.Folder
	files  *livefiles.Files
	checks *checkpoint.Store
	claude *claudecli.Runtime
}

func (s shelf) Sessions(ctx context.Context) ([]parley.SessionID, error) {
	list, err := s.Folder.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	more, err := s.checks.Sessions(ctx)
	list = append(list, more...)
	if err == nil {
		more, err = s.claude.Sessions()
		list = append(list, more...)
	}
	slices.Sort(list)
	return slices.Compact(list), err
}

func (s shelf) Drop(ctx context.Context, id parley.SessionID) error {
	if s.files != nil {
		s.files.Forget(id)
	}
	return errors.Join(s.checks.Drop(ctx, id), s.claude.Drop(id), s.Folder.Drop(ctx, id))
}

// files checks that the files of sessions can be written, here and by a running server.
func (d *doctor) files(s config.Settings) {
	if !d.keepsFiles && d.behind == 0 {
		return
	}
	for _, name := range livefiles.Folders() {
		if err := probe(filepath.Join(s.Data, name)); err != nil {
			d.warn("files", "of sessions cannot be written, and turns go on without them: %v; check who may write there", err)
			return
		}
	}
	if d.behind > 0 {
		d.warn("files", "of %s could not be written by the server, which tries again; its log says why", count(d.behind, "session", "sessions"))
		return
	}
	d.ok("files", "of sessions can be written")
}

// probe writes a file into a folder. A missing folder is created when needed.
func probe(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	f, err := os.CreateTemp(dir, ".parley-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// behind asks a running server how many sessions wait for their files; 0 if it does not
// say.
func behind(ctx context.Context, l *link) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", http.NoBody)
	if err != nil {
		return 0
	}
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 8<<20))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), telemetry.FilesBehindName+" "); ok {
			n, _ := strconv.ParseFloat(v, 64)
			return int(n)
		}
	}
	return 0
}
