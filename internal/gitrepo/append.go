package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

// AppendLine adds a line to a file in a folder, in whatever state the file is. again: it may have been
// added before, as the last that is there. No link is followed.
func AppendLine(dir, name, text string, again bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unavailable(err)
	}
	defer root.Close() //nolint:errcheck // Apply has synced what it wrote
	tree := files.Of(root)
	for tries := 0; ; tries++ {
		body, err := tree.Read(name, files.MaxFile-int64(len(text))-2)
		was := files.VersionOf(body)
		if errors.Is(err, fs.ErrNotExist) {
			body, was, err = nil, "", nil
		}
		if err != nil {
			return err
		}
		if again && bytes.HasSuffix(body, []byte(text+"\n")) {
			return nil
		}
		if len(body) > 0 && !bytes.HasSuffix(body, []byte("\n")) {
			body = append(body, '\n')
		}
		_, err = tree.Apply(files.Change{Path: name, Body: append(body, text+"\n"...), Was: was})
		if !files.IsChanged(err) || tries == 10 {
			return err
		}
	}
}

// Append adds a line to a file, see [AppendLine], and commits the file.
func (r *Repo) Append(ctx context.Context, name, text string, again bool, c Commit) (made Made, err error) {
	if strings.ContainsAny(text, "\n\r") {
		return made, parley.Errorf(parley.CodeInvalid, "the text is not one line")
	}
	err = r.do(ctx, func(ctx context.Context) error {
		if _, err := r.branch(); err != nil || r.shadow.conf.pushed != "" {
			return cmp.Or(err, r.shadow.conf.pushedInto()) // before there is a line that would not be committed
		}
		if err := AppendLine(r.dir, name, text, again); err != nil {
			return err
		}
		if err := r.point("appended"); err != nil {
			return err
		}
		c.Paths = []string{name}
		made, err = r.commit(ctx, c)
		return err
	})
	return made, err
}
