package homeassistant

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite "modernc.org/sqlite/lib"
)

// SQLite writes what a query sorts or stores beyond 2 MB per table to temporary files: up to a
// gigabyte within seconds. None of its settings bounds them. So these databases have a file
// system of their own, which is in memory and full at maxScratch.

const (
	maxScratch   = 128 << 20 // bytes of all temporary files of all questions together
	scratchChunk = 64 << 10
	scratchName  = "parley-scratch"
)

// scratchUsed counts the bytes of all chunks.
var scratchUsed atomic.Int64

// scratchFile is a temporary file. SQLite uses it from one goroutine at a time.
type scratchFile struct {
	chunks []*[scratchChunk]byte
	size   int64
}

var scratch = struct {
	mu    sync.Mutex
	last  int64
	files map[int64]*scratchFile
}{files: map[int64]*scratchFile{}}

// scratchHandle is SQLite's view of a file: its own header and our number.
type scratchHandle struct {
	methods uintptr
	id      int64
}

// at returns the value at an address in SQLite's memory, which Go does not manage.
func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

func bytesAt(p uintptr, n int32) []byte {
	return unsafe.Slice(at[byte](p), int(n))
}

// registerScratch registers the file system with SQLite, once. It returns false if SQLite is out
// of memory.
var registerScratch = sync.OnceValue(func() bool {
	tls := libc.NewTLS()
	defer tls.Close()
	host := sqlite.Xsqlite3_vfs_find(tls, 0)
	p := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(sqlite.Tsqlite3_vfs{})))
	m := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(sqlite.Tsqlite3_io_methods{})))
	name, err := libc.CString(scratchName)
	if host == 0 || p == 0 || m == 0 || err != nil {
		return false
	}
	methods := at[sqlite.Tsqlite3_io_methods](m)
	methods.FiVersion = 1
	set(&methods.FxClose, scratchClose)
	set(&methods.FxRead, scratchRead)
	set(&methods.FxWrite, scratchWrite)
	set(&methods.FxTruncate, scratchTruncate)
	set(&methods.FxSync, func(*libc.TLS, uintptr, int32) int32 { return sqlite.SQLITE_OK })
	set(&methods.FxFileSize, scratchSize)
	set(&methods.FxLock, func(*libc.TLS, uintptr, int32) int32 { return sqlite.SQLITE_OK })
	set(&methods.FxUnlock, func(*libc.TLS, uintptr, int32) int32 { return sqlite.SQLITE_OK })
	set(&methods.FxCheckReservedLock, func(_ *libc.TLS, _, out uintptr) int32 { *at[int32](out) = 0; return sqlite.SQLITE_OK })
	set(&methods.FxFileControl, func(*libc.TLS, uintptr, int32, uintptr) int32 { return sqlite.SQLITE_NOTFOUND })
	set(&methods.FxSectorSize, func(*libc.TLS, uintptr) int32 { return 4096 })
	set(&methods.FxDeviceCharacteristics, func(*libc.TLS, uintptr) int32 { return 0 })
	vfs := at[sqlite.Tsqlite3_vfs](p)
	*vfs = *at[sqlite.Tsqlite3_vfs](host) // its clock and its random numbers
	vfs.FszOsFile = int32(unsafe.Sizeof(scratchHandle{}))
	vfs.FzName, vfs.FpNext = name, 0
	set(&vfs.FxOpen, func(_ *libc.TLS, _, path, file uintptr, _ int32, _ uintptr) int32 {
		h := at[scratchHandle](file)
		h.methods = 0
		if path != 0 { // only temporary files have no name
			return sqlite.SQLITE_CANTOPEN
		}
		scratch.mu.Lock()
		defer scratch.mu.Unlock()
		scratch.last++
		scratch.files[scratch.last] = &scratchFile{}
		h.methods, h.id = m, scratch.last
		return sqlite.SQLITE_OK
	})
	return sqlite.Xsqlite3_vfs_register(tls, p, 0) == sqlite.SQLITE_OK
})

// set makes a Go function the target of a C function pointer.
func set[F any](field *uintptr, f F) { *(*F)(unsafe.Pointer(field)) = keep(f) }

// kept holds the functions that SQLite has pointers to, because the garbage collector does not
// look into its memory.
var kept []any

func keep[F any](f F) F {
	kept = append(kept, f)
	return f
}

func scratchOf(file uintptr) *scratchFile {
	scratch.mu.Lock()
	defer scratch.mu.Unlock()
	return scratch.files[at[scratchHandle](file).id]
}

func scratchClose(_ *libc.TLS, file uintptr) int32 {
	f := scratchOf(file)
	f.cut(0)
	scratch.mu.Lock()
	defer scratch.mu.Unlock()
	delete(scratch.files, at[scratchHandle](file).id)
	return sqlite.SQLITE_OK
}

func scratchRead(_ *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	f, out := scratchOf(file), bytesAt(buf, n)
	had := min(int64(n), max(0, f.size-off))
	clear(out[had:])
	for out = out[:had]; len(out) > 0; {
		c := copy(out, f.chunks[off/scratchChunk][off%scratchChunk:])
		out, off = out[c:], off+int64(c)
	}
	if had < int64(n) {
		return sqlite.SQLITE_IOERR_SHORT_READ
	}
	return sqlite.SQLITE_OK
}

func scratchWrite(_ *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	f, in := scratchOf(file), bytesAt(buf, n)
	for int64(len(f.chunks))*scratchChunk < off+int64(n) {
		if scratchUsed.Add(scratchChunk) > maxScratch {
			scratchUsed.Add(-scratchChunk)
			return sqlite.SQLITE_FULL
		}
		f.chunks = append(f.chunks, new([scratchChunk]byte))
	}
	f.size = max(f.size, off+int64(n))
	for len(in) > 0 {
		c := copy(f.chunks[off/scratchChunk][off%scratchChunk:], in)
		in, off = in[c:], off+int64(c)
	}
	return sqlite.SQLITE_OK
}

func scratchTruncate(_ *libc.TLS, file uintptr, size int64) int32 {
	scratchOf(file).cut(size)
	return sqlite.SQLITE_OK
}

func scratchSize(_ *libc.TLS, file, out uintptr) int32 {
	*at[int64](out) = scratchOf(file).size
	return sqlite.SQLITE_OK
}

// cut truncates the file to size.
func (f *scratchFile) cut(size int64) {
	if size >= f.size {
		return
	}
	f.size = size
	keep := (size + scratchChunk - 1) / scratchChunk
	if keep > 0 && size%scratchChunk != 0 {
		clear(f.chunks[keep-1][size%scratchChunk:])
	}
	scratchUsed.Add(-scratchChunk * (int64(len(f.chunks)) - keep))
	clear(f.chunks[keep:])
	f.chunks = f.chunks[:keep]
}
