package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// File is a file of a repository.
type File struct {
	Name string // path in the repository
	Size int64
	Hash string // its name in blobs: SHA-256 (64 digits) or Git's SHA-1 (40)
	Path string // where it lies in the cache
}

// listing is what a revision holds.
type listing struct {
	commit string
	files  []File // Path is not set
}

// maxListing bounds the bytes of the list of a repository's files.
const maxListing = 64 << 20

// list asks the endpoint for the commit and the files of a revision.
func (c *Client) list(ctx context.Context, n Name) (*listing, error) {
	address := c.Endpoint + "/api/models/" + n.Repo + "/revision/" + url.PathEscape(n.revision()) + "?blobs=true"
	var body []byte
	err := c.retry(ctx, n.Repo, func() (int64, error) {
		resp, err := c.do(ctx, address, nil)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		r := c.watch(resp.Body)
		defer r.stop()
		if body, err = io.ReadAll(io.LimitReader(r, maxListing+1)); err != nil {
			return 0, fmt.Errorf("hub: %s: %w", address, err)
		}
		if len(body) > maxListing {
			return 0, permanent{fmt.Errorf("hub: %s: the list of files has more than %d bytes", address, maxListing)}
		}
		return 0, nil
	})
	if err != nil {
		return nil, err
	}
	l, err := parseListing(body)
	if err != nil {
		return nil, fmt.Errorf("hub: %s: %w (is HF_ENDPOINT a hub?)", address, err)
	}
	return l, nil
}

// parseListing reads the answer. Every field is the server's word and checked.
func parseListing(body []byte) (*listing, error) {
	var raw struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name   string `json:"rfilename"`
			Size   *int64 `json:"size"`
			BlobID string `json:"blobId"`
			LFS    *struct {
				SHA256 string `json:"sha256"`
				Size   *int64 `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, fmt.Errorf("the list of files is not the JSON expected: %w", err)
	}
	if !isCommit(raw.SHA) {
		return nil, fmt.Errorf("the list of files has the commit %q, want 40 hexadecimal digits", oneLine(raw.SHA))
	}
	l := &listing{commit: raw.SHA}
	seen := map[string]bool{}
	for _, s := range raw.Siblings {
		f := File{Name: s.Name, Hash: strings.ToLower(s.BlobID), Size: -1}
		if s.Size != nil {
			f.Size = *s.Size
		}
		if s.LFS != nil {
			f.Hash = strings.ToLower(s.LFS.SHA256)
			if s.LFS.Size != nil {
				f.Size = *s.LFS.Size
			}
		}
		if err := checkFile(f.Name); err != nil {
			return nil, fmt.Errorf("the list of files: %w", err)
		}
		if seen[f.Name] {
			return nil, fmt.Errorf("the list of files has %q twice", f.Name)
		}
		seen[f.Name] = true
		l.files = append(l.files, f)
	}
	return l, nil
}

// check says what a file that is about to be downloaded lacks.
func (f *File) check() error {
	if !isSHA256(f.Hash) && !isSHA1(f.Hash) || f.Size < 0 {
		return fmt.Errorf("hub: the server gives %s the size %d and the hash %q, want a size and a SHA-256 or SHA-1", f.Name, f.Size, oneLine(f.Hash))
	}
	return nil
}
