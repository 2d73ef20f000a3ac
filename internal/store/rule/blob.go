package rule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/parley-server/parley"
)

const (
	// BlobKept is how long a blob stays that nothing refers to: the promised hour, plus
	// the time for which putting it again writes nothing.
	BlobKept = time.Hour + BlobSpared
	// BlobSpared saves the write when the same bytes are put repeatedly.
	BlobSpared = 10 * time.Minute
	// CollectGroup is the most blobs removed in one transaction.
	CollectGroup = 64

	// collectEvery is how often unreferenced blobs are looked for.
	collectEvery = 20 * time.Minute
)

// Digest is the digest under which a blob is stored.
func Digest(body []byte) parley.Digest {
	sum := sha256.Sum256(body)
	return parley.Digest(hex.EncodeToString(sum[:]))
}

// Collect calls collect, which removes old blobs, periodically until stop is closed.
func Collect(stop <-chan struct{}, log *slog.Logger, collect func(context.Context) error) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if err := collect(context.Background()); err != nil {
				log.Warn("old blobs could not be removed", "err", err)
			}
		}
	}
}
