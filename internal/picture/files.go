package picture

import (
	"context"
	"path"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Shown returns what to keep of a file that a call made, so that the model sees it if it is an image:
// the file, and where that is not fit for models another one that is. why says for the model why it
// cannot be shown an image.
func Shown(ctx context.Context, f seam.File) (keep []seam.File, why string) {
	if !strings.HasPrefix(f.MediaType, "image/") {
		return []seam.File{f}, ""
	}
	p, err := Fit(ctx, f.Body)
	switch {
	case err != nil:
		return []seam.File{f}, "It cannot be shown to you: " + parley.Info(err).Message + "."
	case !p.Changed():
		f.MediaType, f.Show = p.MediaType, true // a server may have called it something else
		return []seam.File{f}, ""
	}
	name := strings.TrimSuffix(f.Name, path.Ext(f.Name)) + "-shown." + strings.TrimPrefix(p.MediaType, "image/")
	return []seam.File{f, {Name: name, MediaType: p.MediaType, Body: p.Body, Show: true}}, ""
}

// Keep keeps a file of a call with keep, which is Keep of [seam.Run], so that the model sees it if it
// is an image. why is that of Shown. The error is that of the file itself.
func Keep(ctx context.Context, keep func(seam.File) error, f seam.File) (why string, err error) {
	files, why := Shown(ctx, f)
	if err := keep(files[0]); err != nil {
		return "", err
	}
	for _, small := range files[1:] {
		if err := keep(small); err != nil {
			why = "It cannot be shown to you: " + parley.Info(err).Message + "."
		}
	}
	return why, nil
}
