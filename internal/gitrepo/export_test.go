package gitrepo

// At has f called at each point at which a crash can leave something behind. An error of it ends
// what is under way as a crash would.
func (r *Repo) At(f func(point string) error) { r.o.At = f }
