package mistral

import (
	"context"
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// keep stores the content of a data: address for the brain to open.
func (f *files) keep(kind parley.PartType, url, title string) parley.Part {
	media, body := decodeData(url)
	f.list = append(f.list, seam.File{Name: title, MediaType: media, Body: body})
	return parley.Part{Type: kind, Artifact: parley.ArtifactID(strconv.Itoa(len(f.list) - 1)), MediaType: media, Name: title}
}

func (f *files) open(_ context.Context, id parley.ArtifactID) (seam.File, error) {
	n, err := strconv.Atoi(string(id))
	if err != nil || n < 0 || n >= len(f.list) {
		return seam.File{}, parley.Errorf(parley.CodeNotFound, "there is no such file")
	}
	return f.list[n], nil
}
