package gitrepo

import "github.com/parley-server/parley/internal/files"

// At has f called at each point at which a crash can leave something behind. An error of it ends
// what is under way as a crash would.
func (r *Repo) At(f func(point string) error) { r.o.At = f }

// Half is the name of the temporary file of a file that is being written.
func Half(path string) string { return files.TemporaryName(tagOf(path)) }
