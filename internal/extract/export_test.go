package extract

// NoteName is the file with the digest.
const NoteName = noteName

// Cached is cached.
var Cached = cached
