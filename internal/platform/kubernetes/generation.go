package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/wait"
)

// Annotations of the operator's objects, of which a cluster has one for each generation and for each scratch server.
const (
	// archiveAnnotation is the name under which WAL and backups are kept: each generation's own.
	archiveAnnotation = "steward/archive"
	// originAnnotation names the request that the data was restored for.
	originAnnotation = "steward/origin"
	// reachedAnnotation is the moment that restored data is of.
	reachedAnnotation = "steward/reached"
	// unfinishedAnnotation is on what nobody is led to yet, or ever; its value is when it is left over for sure.
	unfinishedAnnotation = "steward/unfinished"
	// asideAnnotation is on what a restore has replaced, since when.
	asideAnnotation = "steward/aside"
	// undoneAnnotation is on a generation that an undone restore has given way to again.
	undoneAnnotation = "steward/undone"
	// timelinesAnnotation is on restored data: the timeline that it began with, and the failovers until then.
	timelinesAnnotation = "steward/timelines"
)

// noted are the annotations that an object keeps as long as it is there.
var noted = []string{originAnnotation, reachedAnnotation, timelinesAnnotation, undoneAnnotation}

// timelines are where the count of a cluster's failovers begins.
type timelines struct{ timeline, failovers int }

func timelinesOf(c object) timelines {
	t := timelines{timeline: 1}
	first, failovers, ok := strings.Cut(c.GetAnnotations()[timelinesAnnotation], "/")
	if n, err := strconv.Atoi(first); ok && err == nil {
		t.timeline = n
		t.failovers, _ = strconv.Atoi(failovers) // we wrote it
	}
	if c.GetAnnotations()[unfinishedAnnotation] != "" { // with which timeline it begins is yet to be seen
		t.timeline = max(t.timeline, c.Timeline())
	}
	return t
}

func (t timelines) String() string { return fmt.Sprintf("%d/%d", t.timeline, t.failovers) }

// current are the names of the generation that counts: the one that customers are led to. Where nothing leads to any, it is the newest that
// is neither unfinished nor aside. way is what leads to it; nil for nothing.
func (d *Driver) current(ctx context.Context, from client.Reader, id cluster.ID) (n names, way *corev1.Service, err error) {
	n, way = d.names(id), &corev1.Service{}
	err = from.Get(ctx, n.key(n.base()), way)
	if err == nil {
		if g, err := strconv.Atoi(way.Labels[generationLabel]); err == nil {
			n.generation = g
		}
		return n, way, nil
	}
	if !isGone(err) {
		return n, nil, fmt.Errorf("read %s: %w", n.base(), err)
	}
	all, err := d.objects(ctx, from, id, fromMemory{}) // for each database that is new
	for _, c := range all {
		if c.GetAnnotations()[unfinishedAnnotation] == "" && c.GetAnnotations()[asideAnnotation] == "" {
			n.generation = max(n.generation, generationOf(c))
		}
	}
	return n, nil, err
}

func generationOf(o client.Object) int {
	g, _ := strconv.Atoi(o.GetLabels()[generationLabel]) // 0 of what isn't ours
	return g
}

// objects are the operators' objects of a cluster, oldest generation first.
func (d *Driver) objects(ctx context.Context, from client.Reader, id cluster.ID, how ...client.ListOption) ([]object, error) {
	var all []object
	options := append(how, client.InNamespace(d.o.Namespace), of(id))
	for _, op := range d.operators {
		list := op.kinds()[0]
		if err := from.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("list generations: %w", err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("list generations: %w", err)
		}
		for _, item := range items {
			all = append(all, item.(object)) // the first kind is that of its objects
		}
	}
	slices.SortStableFunc(all, func(a, b object) int { return generationOf(a) - generationOf(b) })
	return all, nil
}

// nextGeneration is one of which nothing is there.
func (d *Driver) nextGeneration(ctx context.Context, id cluster.ID) (int, error) {
	left, err := d.leftovers(ctx, of(id))
	next := 0
	for _, o := range left {
		next = max(next, generationOf(o))
	}
	return next + 1, err
}

// archivePrefix begins the names of all archives of a cluster, and of no other with its number, as after a store was lost.
func archivePrefix(c cluster.Cluster) string {
	return "db-" + strconv.FormatInt(int64(c.ID), 10) + "-" + strconv.FormatInt(c.Created.UTC().UnixNano(), 36) + "-"
}

// newArchive is a name that nothing was archived under yet, which the plugin insists on.
func newArchive(c cluster.Cluster, generation int) string {
	token := make([]byte, 4)
	rand.Read(token)
	return archivePrefix(c) + "g" + strconv.Itoa(generation) + "-" + hex.EncodeToString(token)
}

// note takes over from an object the annotations that stay.
func (d *desired) note(c object) {
	d.notes = map[string]string{}
	for _, name := range noted {
		if value := c.GetAnnotations()[name]; value != "" {
			d.notes[name] = value
		}
	}
}

// archiveTo has the servers archive to an ObjectStore.
func (d *desired) archiveTo(store string) {
	if d.archive == "" {
		d.archive = newArchive(d.want.Cluster, d.generation)
	}
	d.plugins = []cnpg.Plugin{{
		Name: cnpg.BarmanPlugin, Enabled: new(true), IsWALArchiver: new(true),
		Parameters: map[string]string{cnpg.BarmanObjectName: store, cnpg.ServerName: d.archive},
	}}
}

// archiveTimeout is after how many seconds a file of WAL is archived that something was written to.
const archiveTimeout = "60"

// oursOf is what we wrote of an object's name, labels and annotations.
func oursOf(c object) metav1.ObjectMeta {
	mine := metav1.ObjectMeta{Name: c.GetName(), Namespace: c.GetNamespace(), Labels: map[string]string{}, Annotations: map[string]string{}}
	for name, value := range c.GetLabels() {
		if strings.HasPrefix(name, "steward/") || name == "app.kubernetes.io/managed-by" {
			mine.Labels[name] = value
		}
	}
	for name, value := range c.GetAnnotations() { // but for the digest: what follows isn't what was written last
		if strings.HasPrefix(name, "steward/") && name != wroteAnnotation && name != takeOverAnnotation || name == cnpg.HibernationAnnotation || name == cnpg.RestartAnnotation {
			mine.Annotations[name] = value
		}
	}
	return mine
}

// annotate writes an object again with some annotations changed; one that becomes "" goes.
func (d *Driver) annotate(ctx context.Context, c object, change map[string]string) error {
	return d.rest(ctx, c, c.Rests(), change)
}

// rest is annotate, and has an object's servers rest, or run.
func (d *Driver) rest(ctx context.Context, c object, rests bool, change map[string]string) error {
	mine := c.Again(oursOf(c), rests)
	annotations := mine.GetAnnotations()
	maps.Copy(annotations, change)
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	return write(ctx, d.live, mine)
}

// lead leads customers to a generation: nobody yet, since the rules of who is let in are Apply's.
func (d *Driver) lead(ctx context.Context, made desired) error {
	made.want.LockedOut = true
	ways := []client.Object{made.service(made.base(), cluster.Primary)}
	if made.want.Size > 1 {
		ways = append(ways, made.service(made.names.reads(), cluster.Replica))
	}
	for _, way := range ways {
		if err := write(ctx, d.live, way); err != nil {
			return err
		}
	}
	d.forgetProbes(made.id)
	return nil
}

// setAside has the generation rest that customers were led to before, and removes those that were aside already. Repeated, it finds the same ones. A machine
// that is lost doesn't hold it up.
func (d *Driver) setAside(ctx context.Context, current names) error {
	all, err := d.objects(ctx, d.live, current.id)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(c object) bool {
		return c.GetName() == current.cluster() || c.GetAnnotations()[unfinishedAnnotation] != "" || c.GetDeletionTimestamp() != nil
	})
	if len(all) == 0 {
		return nil
	}
	for _, c := range all[:len(all)-1] {
		if err := d.dropGeneration(ctx, c); err != nil {
			return err
		}
	}
	last := all[len(all)-1]
	n := current.of(generationOf(last))
	if last.GetAnnotations()[asideAnnotation] == "" {
		if v, err := d.lookAt(ctx, d.live, n); err == nil {
			d.seal(ctx, v)
		}
		since := d.o.Now().UTC().Format(time.RFC3339)
		if err := d.rest(ctx, last, true, map[string]string{asideAnnotation: since}); err != nil {
			return err
		}
	}
	d.awaitRest(ctx, n)
	return nil
}

// restTime is how long is waited for the servers of a generation to stop that nobody is led to any more.
const restTime = 30 * time.Second

func (d *Driver) awaitRest(ctx context.Context, n names) {
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	for {
		v, err := d.lookAt(ctx, d.live, n)
		if err == nil && len(v.pods) == 0 {
			return
		}
		if wait.Sleep(ctx, pollEvery) != nil {
			d.o.Logger.WarnContext(ctx, "servers that were replaced have yet to stop", "cluster", n.cluster())
			return
		}
	}
}

// dropUnfinished removes what a restore that was given up has left, and has rest what it was led away from. Whoever calls it holds the cluster's lease, so that none
// is under way.
func (d *Driver) dropUnfinished(ctx context.Context, current names) error {
	all, err := d.objects(ctx, d.seen, current.id)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.GetName() == current.cluster() || generationOf(c) == 0 || c.GetDeletionTimestamp() != nil || c.GetAnnotations()[asideAnnotation] != "" {
			continue
		}
		if c.GetAnnotations()[unfinishedAnnotation] == "" {
			if err := d.setAside(ctx, current); err != nil {
				return err
			}
			continue
		}
		if err := d.dropGeneration(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// dropGeneration removes a generation, or a scratch server, and what is its alone.
func (d *Driver) dropGeneration(ctx context.Context, c object) error {
	if err := d.drop(ctx, c); err != nil {
		return err
	}
	for _, op := range d.operators {
		if reflect.TypeOf(op.blank()) == reflect.TypeOf(c) {
			return d.dropOwn(ctx, op, c.GetName())
		}
	}
	return nil
}

// dropOwn removes what an object leaves that is gone.
func (d *Driver) dropOwn(ctx context.Context, op operator, object string) error {
	left, err := op.own(ctx, object)
	if err != nil {
		return err
	}
	for _, o := range left {
		if err := d.drop(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// generationSecret is the name of a secret of a generation's, or a scratch server's, after that of its object.
var generationSecret = regexp.MustCompile(`^(db-[0-9]+-[gv][0-9]+)-[a-z]+$`)

// dropOrphans removes secrets of generations and scratch servers that have no object, since somebody died who was to make it, or removed it. Those that
// are newer than before may yet get one.
func (d *Driver) dropOrphans(ctx context.Context, there []client.Object, before time.Time) error {
	owners := map[string]bool{}
	for _, o := range there {
		if o, is := o.(object); is {
			owners[o.GetName()] = true
		}
	}
	var errs []error
	for _, o := range there {
		name := generationSecret.FindStringSubmatch(o.GetName())
		if _, secret := o.(*corev1.Secret); !secret || name == nil || owners[name[1]] || !o.GetCreationTimestamp().Time.Before(before) {
			continue
		}
		id, _ := idOf(o)
		if is, _, err := d.current(ctx, d.live, id); err != nil || is.cluster() == name[1] {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, d.drop(ctx, o))
	}
	return errors.Join(errs...)
}

// dropExpired removes what was aside for long enough, and what verifications and restores have left that ended in the middle.
func (d *Driver) dropExpired(ctx context.Context, there []client.Object) error {
	now := d.o.Now()
	errs := []error{d.dropOrphans(ctx, there, now.Add(-leftOver))}
	for _, o := range there {
		c, ok := o.(object)
		if !ok || c.GetDeletionTimestamp() != nil {
			continue
		}
		left, err := time.Parse(time.RFC3339, c.GetAnnotations()[unfinishedAnnotation])
		expired := err == nil && now.After(left)
		if since, err := time.Parse(time.RFC3339, c.GetAnnotations()[asideAnnotation]); err == nil {
			expired = expired || now.Sub(since) > backup.SetAside
		}
		id, _ := idOf(c)
		if is, _, err := d.current(ctx, d.seen, id); !expired || err != nil || is.cluster() == c.GetName() {
			errs = append(errs, err)
			continue
		}
		d.o.Logger.InfoContext(ctx, "data that was set aside, or never used, is removed", "cluster_id", id, "object", c.GetName())
		errs = append(errs, d.dropGeneration(ctx, c))
	}
	return errors.Join(errs...)
}

// Undo implements platform.Archiver.
func (d *Driver) Undo(ctx context.Context, want platform.Wanted) error {
	if err := d.undo(ctx, want); err != nil {
		return fmt.Errorf("undo the restore of cluster %d: %w", want.ID, err)
	}
	return nil
}

func (d *Driver) undo(ctx context.Context, want platform.Wanted) error {
	is, err := d.look(ctx, d.live, want.ID)
	if err != nil {
		return err
	}
	if is.object != nil && is.object.GetAnnotations()[undoneAnnotation] != "" && is.object.GetAnnotations()[asideAnnotation] == "" {
		return nil // an earlier run has come to its end
	}
	aside, err := d.asideOf(ctx, is)
	if err != nil {
		return err
	}
	if is.object == nil || is.cluster() != aside.GetName() {
		if err := d.wake(ctx, want, is, aside); err != nil {
			return err
		}
	}
	back := is.names.of(generationOf(aside))
	if err := d.dropOthers(ctx, back); err != nil {
		return err
	}
	now := d.operatorOf(want.Engine).blank()
	if err := d.live.Get(ctx, back.key(back.cluster()), now); err != nil {
		return fmt.Errorf("read %s: %w", back.cluster(), err)
	}
	return d.rest(ctx, now, false, map[string]string{asideAnnotation: "", undoneAnnotation: "yes"})
}

// asideOf is what the last restore has set aside. An undo that ended in the middle may have led back to it, and away from what was restored.
func (d *Driver) asideOf(ctx context.Context, is view) (object, error) {
	if is.object != nil && is.object.GetAnnotations()[asideAnnotation] != "" {
		return is.object, nil
	}
	all, err := d.objects(ctx, d.live, is.id)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(all) {
		since, err := time.Parse(time.RFC3339, c.GetAnnotations()[asideAnnotation])
		aside := err == nil && d.o.Now().Sub(since) <= backup.SetAside
		// A restore that was given up in the middle may have led away from it, and no more.
		ledAwayFrom := c.GetAnnotations()[asideAnnotation] == "" && c.GetAnnotations()[unfinishedAnnotation] == "" && c.GetName() != is.cluster()
		if c.GetDeletionTimestamp() == nil && (aside || ledAwayFrom) {
			return c, nil
		}
	}
	return nil, platform.ErrNothingAside
}

// wake brings a generation's servers back, and leads to it.
func (d *Driver) wake(ctx context.Context, want platform.Wanted, is view, aside object) error {
	back := is.names.of(generationOf(aside))
	began := timelinesOf(aside)
	if is.object != nil { // what happened meanwhile isn't told twice
		var now, then platform.Observed
		is.op.addFailovers(is, &now)
		is.op.addFailovers(view{names: back, op: is.op, object: aside}, &then)
		if now.Failovers != then.Failovers {
			began = timelines{timeline: max(1, aside.Timeline()), failovers: now.Failovers}
		}
	}
	if err := d.rest(ctx, aside, false, map[string]string{timelinesAnnotation: began.String()}); err != nil {
		return err
	}
	if _, err := d.awaitWriter(ctx, back, nil); err != nil {
		return err
	}
	made, err := d.desire(ctx, want, view{names: back, object: aside})
	if err != nil {
		return err
	}
	return d.lead(ctx, made)
}

// dropOthers removes all generations but one.
func (d *Driver) dropOthers(ctx context.Context, but names) error {
	all, err := d.objects(ctx, d.live, but.id)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.GetName() != but.cluster() && generationOf(c) != 0 {
			if err := d.dropGeneration(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}
