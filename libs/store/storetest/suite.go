package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Env is a database for one test.
type Env struct {
	// Stores are open on one fresh, migrated database. With two of them, half of the calls of a
	// concurrent test go to each.
	Stores []store.Store
	// CoarseRetention is set if outcomes are removed by the day, up to a day late.
	CoarseRetention bool
	// NoDryRuns is set if the store cannot roll back.
	NoDryRuns bool
}

// Open creates an Env that is removed after the test.
type Open func(t *testing.T) Env

// Run runs the suite.
func Run(t *testing.T, open Open) { //nolint:funlen // a list
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, s *setup)
	}{
		{"S1_OneOfManyCreatesWins", oneOfManyCreatesWins},
		{"S1_NamesInOneCall", namesInOneCall},
		{"S1_DeletedNameIsFree", deletedNameIsFree},
		{"S1_OriginIsNoDefinition", originIsNoDefinition},
		{"S1_NamesAreBytes", namesAreBytes},
		{"S2_FiresComeWithTheTimer", firesComeWithTheTimer},
		{"S2_RefusedItemWritesNothing", refusedItemWritesNothing},
		{"S2_TooLongKeyStopsNoOther", tooLongKeyStopsNoOther},
		{"S2_DeactivationExpandsUpToNow", deactivationExpandsUpToNow},
		{"S3_ActivationsCount", activationsCount},
		{"S3_ConcurrentActivations", concurrentActivations},
		{"S4_ChangesAreLogged", changesAreLogged},
		{"S4_ConcurrentChanges", concurrentChanges},
		{"S5_IdempotencyKeys", idempotencyKeys},
		{"S5_ConcurrentIdempotencyKeys", concurrentIdempotencyKeys},
		{"S6_ExpandOnceEach", expandOnceEach},
		{"Expand_InTurns", expandsInTurns},
		{"S6_ExpandContinues", expandContinues},
		{"S7_FailingPlanStopsNoOther", failingPlanStopsNoOther},
		{"S8_BucketsGrowUntilFrozen", bucketsGrowUntilFrozen},
		{"S8_ConcurrentGrowth", concurrentGrowth},
		{"S9_OneClaimPerSlice", oneClaimPerSlice},
		{"S9_LeaseRunsOut", leaseRunsOut},
		{"S10_StaleTokensChangeNothing", staleTokensChangeNothing},
		{"S11_CursorWaitsForSlices", cursorWaitsForSlices},
		{"S12_OneClaimWins", oneClaimWins},
		{"S12_RepeatedAndStaleClaims", repeatedAndStaleClaims},
		{"S12_ClaimsOfExpiredSessionsAreTaken", claimsOfExpiredSessionsAreTaken},
		{"S13_OnlyTheOwnerActs", onlyTheOwnerActs},
		{"S13_Release", release},
		{"S13_ConcurrentReleases", concurrentReleases},
		{"S14_OneOutcome", oneOutcome},
		{"S14_BatchesOfAnySize", recordsBatchesOfAnySize},
		{"S14_ConcurrentRecords", concurrentRecords},
		{"S14_RefusedOutcomeLosesItsDetails", refusedOutcomeLosesItsDetails},
		{"S15_LoadSlice", loadSlice},
		{"S15_Overdue", overdue},
		{"S15_OverdueWalksABacklog", overdueWalksABacklog},
		{"S15_OwnedAndOldest", ownedAndOldest},
		{"S15_OldestOfAPurgedMinute", oldestOfAPurgedMinute},
		{"OverdueByApp", overdueByApp},
		{"S16_ExpiredStaysExpired", expiredStaysExpired},
		{"S17_ExpiryNeedsTheLatestRenewal", expiryNeedsTheLatestRenewal},
		{"S18_Retention", retention},
		{"S18_EndedBackfillsArePurged", endedBackfillsArePurged},
		{"S18_PurgedBefore", purgedBefore},
		{"S18_AttemptsOfOpenFiresAreKept", attemptsOfOpenFiresAreKept},
		{"S18_DeletedTimersAreRemoved", deletedTimersAreRemoved},
		{"S18_DeletedTimersWithFiresAheadStay", deletedTimersWithFiresAheadStay},
		{"S18_CalledOneShotsAreRemoved", calledOneShotsAreRemoved},
		{"S18_NoAddedFireIsRemoved", noAddedFireIsRemoved},
		{"S19_EditMakesAVersion", editMakesAVersion},
		{"S19_EditDeactivates", editDeactivates},
		{"S19_EditsAreChecked", editsAreChecked},
		{"S20_EditReplans", editReplans},
		{"S20_EditLeavesOpenFires", editLeavesOpenFires},
		{"S20_EditsBetweenPlans", editsBetweenPlans},
		{"S20_EditCountsMaxFires", editCountsMaxFires},
		{"S20_EditRaisesMaxFires", editRaisesMaxFires},
		{"S20_EditExpandsThePast", editExpandsThePast},
		{"S20_EditWhileInactive", editWhileInactive},
		{"S20_OneShotsAreMovedOnce", oneShotsAreMovedOnce},
		{"S20_OneShotsAreMovedBack", oneShotsAreMovedBack},
		{"S20_DueOneShotsAreMovedOnce", dueOneShotsAreMovedOnce},
		{"S20_DueOneShotsAreNotPlannedAgain", dueOneShotsAreNotPlannedAgain},
		{"S20_MovedOneShotsKeepTheirAttempts", movedOneShotsKeepTheirAttempts},
		{"S20_LaterExpansionsMove", laterExpansionsMove},
		{"S20_ConcurrentEdits", concurrentEdits},
		{"S6_SkipsAreOutcomes", skipsAreOutcomes},
		{"S21_FreezesAreLogged", freezesAreLogged},
		{"S21_FreezesOfNewApps", freezesOfNewApps},
		{"S21_FrozenAppsTakeNoFires", frozenAppsTakeNoFires},
		{"S22_FullSlotsSkip", fullSlotsSkip},
		{"S22_FullSlotsQueue", fullSlotsQueue},
		{"S22_FullSlotsAreReplaced", fullSlotsAreReplaced},
		{"S22_ReplacedFiresStayReplaced", replacedFiresStayReplaced},
		{"S22_RequestedFiresWait", requestedFiresWait},
		{"S22_RequestedFiresPassDeferredOnes", requestedFiresPassDeferredOnes},
		{"S22_RequestedFiresAskAtAPause", requestedFiresAskAtAPause},
		{"S22_RequestedFiresWaitForAccepted", requestedFiresWaitForAccepted},
		{"S22_DeferredFiresGiveTheirSlotOn", deferredFiresGiveTheirSlotOn},
		{"S22_ConcurrentSlots", concurrentSlots},
		{"S22_UnknownPolicy", unknownPolicyIsRefused},
		{"S23_OneCatchUp", oneCatchUp},
		{"S24_DelaysContinue", delaysContinue},
		{"S24_ActivationBeginsAChain", activationBeginsAChain},
		{"S24_DelaysCountFromTheLastEnd", delaysCountFromTheLastEnd},
		{"S24_DelayedFiresGiveTheirSlotOn", delayedFiresGiveTheirSlotOn},
		{"S24_SkipsDoNotCount", skipsDoNotCount},
		{"S24_SkipsOfWhatAnEditTookBack", skipsOfWhatAnEditTookBack},
		{"S24_ActivationEndsTheChain", activationEndsTheChain},
		{"S24_ChainsDueSoonerAreLast", chainsDueSoonerAreLast},
		{"S24_ChainsContinueWithFiresThatWereLeft", chainsContinueWithFiresThatWereLeft},
		{"S24_ChainsOpenFiresAgain", chainsOpenFiresAgain},
		{"S24_ChainsContinueWithFiresToSkip", chainsContinueWithFiresToSkip},
		{"S20_EditsKeepTheDelay", editsKeepTheDelay},
		{"S20_EditsBelowMaxFires", editsBelowMaxFires},
		{"S20_EditsBeginADelay", editsBeginADelay},
		{"S24_FiresThatWereLeftAreNotAhead", firesThatWereLeftAreNotAhead},
		{"S24_ClaimedFiresCountOnce", claimedFiresCountOnce},
		{"S24_SkipsOfAClaimedChain", skipsOfAClaimedChain},
		{"S24_SupersededOnlyInItsVersion", supersededOnlyInItsVersion},
		{"S24_ConcurrentSuccessors", concurrentSuccessors},
		{"S25_CompleteDelivers", completeDelivers},
		{"S25_OneTargetCompletes", oneTargetCompletes},
		{"S25_CompletionWaits", completionWaits},
		{"S25_FailedCompletionReleases", failedCompletionReleases},
		{"S25_CompleteStartsOthers", completeStartsOthers},
		{"S25_ConcurrentCompletions", concurrentCompletions},
		{"S26_EventsByPosition", eventsByPosition},
		{"S26_EventsOfTheSystemSession", eventsOfTheSystemSession},
		{"S26_EventsAfterAClockAhead", eventsAfterAClockAhead},
		{"S26_AttemptsOfTargets", attemptsOfTargets},
		{"S27_EncryptedTextIsRewritten", encryptedTextIsRewritten},
		{"S28_SettingsAreReplaced", settingsAreReplaced},
		{"S28_SigningKeys", signingKeys},
		{"S28_APIKeys", apiKeys},
		{"S29_StretchesAreRecorded", stretchesAreRecorded},
		{"S29_PausesEndAtTheirInstant", pausesEndAtTheirInstant},
		{"S30_DeferredFiresWait", deferredFiresWait},
		{"S30_ConcurrentDeferrals", concurrentDeferrals},
		{"S31_ChangedZonesAreReplanned", changedZonesAreReplanned},
		{"S31_ZonesRollOver", zonesRollOver},
		{"S31_WalksAreRepeated", walksAreRepeated},
		{"S31_ReplansCountMaxFires", replansCountMaxFires},
		{"S31_EditsMeanwhile", editsMeanwhile},
		{"S31_ConcurrentZones", concurrentZones},
		{"S31_RandomRollouts", randomRollouts},
		{"S32_OpenAmong", openAmong},
		{"S32_Begin", beginWritesLateness},
		{"S33_EditIsContinued", editIsContinued},
		{"S33_SupersededOnlyIfDecided", supersededOnlyIfDecided},
		{"S33_CalendarsAreContinued", calendarsAreContinued},
		{"S33_ReplansWithMaxFires", replansWithMaxFires},
		{"S33_EditDuringFollowUp", editDuringFollowUp},
		{"S33_WaitsWhileInactive", followUpWaitsWhileInactive},
		{"S33_LateActivationSkipsNothing", lateActivationSkipsNothing},
		{"S33_PriorityIsContinued", priorityIsContinued},
		{"S33_BehindSkipsNothing", followUpBehindSkipsNothing},
		{"S33_ConcurrentFollowUps", concurrentFollowUps},
		{"S34_SearchesSelect", searchesSelect},
		{"S34_SearchesFindFirstFires", searchesFindFirstFires},
		{"S34_LastOutcomesIgnoreEdits", lastOutcomesIgnoreEdits},
		{"S34_SearchesRefuse", searchesRefuse},
		{"S34_PagesOfLargeBodies", searchesBoundPagesByBodies},
		{"S34_ConcurrentChanges", searchesSeeConcurrentChanges},
		{"S37_HopsAreKept", hopsAreKept},
		{"S37_WaitsAreKept", waitsAreKept},
		{"S37_SessionsByID", sessionsByID},
		{"S35_JobsAreKept", jobsAreKept},
		{"S35_JobsTakeTurns", jobsTakeTurns},
		{"S35_LeasesRunOut", jobLeasesRunOut},
		{"S35_ConcurrentLeases", concurrentJobLeases},
		{"S35_CancelledJobsEnd", cancelledJobsEnd},
		{"S35_DeletedAppsTakeNothing", deletedAppsTakeNothing},
		{"S35_DeletedAppsAreCleared", deletedAppsAreCleared},
		{"S35_FailedDeletions", failedDeletions},
		{"S35_PurgedFailedDeletions", purgedFailedDeletions},
		{"S35_ConcurrentDeletion", concurrentDeletion},
		{"S36_OutcomesOfAnApp", outcomesOfAnApp},
		{"S36_OutcomesOfOthers", outcomesOfOthers},
		{"S36_OutcomesAreCounted", outcomesAreCounted},
		{"S36_OutcomesWhileRecording", outcomesWhileRecording},
		{"S39_MetricsAreBounded", metricsAreBounded},
		{"S39_ConcurrentMetrics", concurrentMetrics},
		{"S40_ChangesAreInTheTrail", changesAreInTheTrail},
		{"S40_OthersAreNotInTheTrail", othersAreNotInTheTrail},
		{"S40_AddedEntries", addedEntries},
		{"S41_AuditFeed", auditFeed},
		{"S41_AuditFeedHasOneHolder", auditFeedHasOneHolder},
		{"S40_CompletionsAreInTheTrail", completionsAreInTheTrail},
		{"S40_ItemsHaveTheirActors", itemsHaveTheirActors},
		{"S40_ManyCreatesOfOneActor", manyCreatesOfOneActor},
		{"S40_EntriesAreSelected", entriesAreSelected},
		{"S40_ConcurrentChanges", concurrentAuditedChanges},
		{"S40_JobsKeepTheirActor", jobsKeepTheirActor},
		{"S40_OldEntriesAreRemoved", oldEntriesAreRemoved},
		{"S42_SignInsAreEnded", signInsAreEnded},
		{"S42_ConcurrentEnds", concurrentSignInEnds},
		{"S43_DueWorkIsNamed", dueWorkIsNamed},
		{"S38_DryRunsWriteNothing", dryRunsWriteNothing},
		{"S38_DryRunsBesideWrites", dryRunsBesideWrites},
		{"PrioritiesAndTargets", prioritiesAndTargets},
		{"Redrives_MakeFires", redriveMakesFires},
		{"Redrives_Select", redriveSelects},
		{"Redrives_Refuse", redriveRefuses},
		{"Redrives_Concurrent", concurrentRedrives},
		{"Redrives_LeaveOutTheirOwn", redrivesLeaveOutTheirOwn},
		{"Redrives_GoOnFromTheirBegin", redrivesGoOnFromTheirBegin},
		{"Redrives_FrozenApp", frozenAppsTakeNoRedrives},
		{"DeadLetters_Paged", deadLettersArePaged},
		{"DeadLetters_ExamineFew", deadLettersExamineFew},
		{"DeadLetters_LastErrorsOfTargets", lastErrorsOfTargets},
		{"AddedFires", addedFires},
		{"Calendars_HaveVersions", calendarsHaveVersions},
		{"Calendars_StayTheSame", calendarsStayTheSame},
		{"Calendars_KnowTheirTimers", calendarsKnowTheirTimers},
		{"Calendars_ComeWithTimers", calendarsComeWithTimers},
		{"Calendars_MissingAreRefused", missingCalendarsAreRefused},
		{"Calendars_DeletedHaveNoTimers", deletedCalendarsHaveNoTimers},
		{"Calendars_Replan", calendarsReplan},
		{"Calendars_PastOneShotsStayPast", pastOneShotsStayPast},
		{"Calendars_ExcludedOneShotsBecomeDue", excludedOneShotsBecomeDue},
		{"Calendars_OneShotsOfChangedPauses", oneShotsOfChangedPauses},
		{"Calendars_CountMaxFires", calendarsCountMaxFires},
		{"Calendars_Concurrent", concurrentCalendars},
		{"Backfills_End", backfillsEnd},
		{"Backfills_AreCancelled", backfillsAreCancelled},
		{"Backfills_DoneAreCancelled", doneBackfillsAreCancelled},
		{"Backfills_AreCancelledInQueues", backfillsAreCancelledInQueues},
		{"Backfills_Concurrent", concurrentBackfills},
		{"Pauses_End", pausesEnd},
		{"Status_Conditions", statusConditions},
		{"Pauses_ConcurrentResumes", concurrentResumes},
		{"Timers", readTimers},
		{"Apps_AreListed", appsAreListed},
		{"History", history},
		{"History_LastScheduled", lastScheduled},
		{"OpenFires", openFires},
		{"OpenFires_AmongManyAtOneInstant", openFiresAtOneInstant},
		{"Now", now},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newSetup(t, open(t)))
		})
	}
}

// setup is the environment of one test.
type setup struct {
	Env

	t   *testing.T
	ids *timer.IDs
	seq atomic.Int64
}

func newSetup(t *testing.T, env Env) *setup {
	t.Helper()
	require.NotEmpty(t, env.Stores)
	return &setup{Env: env, t: t, ids: timer.NewIDs(time.Now)}
}

// st returns the first store.
func (s *setup) st() store.Store { return s.Stores[0] }

// nowMS returns the store's clock.
func (s *setup) nowMS() int64 {
	s.t.Helper()
	at, err := s.st().Now(s.t.Context())
	require.NoError(s.t, err)
	return at.UnixMilli()
}

// together runs n calls at once, spread over the stores.
func (s *setup) together(n int, call func(ctx context.Context, i int, st store.Store) error) {
	s.t.Helper()
	var wait sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wait.Go(func() {
			<-start
			errs[i] = call(s.t.Context(), i, s.Stores[i%len(s.Stores)])
		})
	}
	close(start)
	wait.Wait()
	for _, err := range errs {
		require.NoError(s.t, err)
	}
}

// session opens a session.
func (s *setup) session() timer.ID {
	s.t.Helper()
	id := s.ids.Next()
	require.NoError(
		s.t,
		s.st().
			OpenSession(s.t.Context(), store.Session{ID: id, Kind: store.ExecutorSession, Name: "test"}),
	)
	return id
}

// expireSession ends a session.
func (s *setup) expireSession(id timer.ID) {
	s.t.Helper()
	require.NoError(s.t, s.st().CloseSession(s.t.Context(), id))
}

// definition returns a definition that differs by url.
func definition(url string) timer.Definition {
	return timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"* * * * *"}},
		Target: timer.Target{
			Kind:    timer.KindHTTP,
			URL:     url,
			Method:  "POST",
			Headers: map[string][]string{"B": {"1"}, "A": {"2"}},
			Body:    "{}",
		},
		Retry: timer.DefaultRetry(),
	}
}

// noFires plans nothing, and nothing again for an hour.
func noFires(t *timer.Timer, nowMS int64) store.Plan {
	return store.Plan{
		NextDueMS:  max(t.NextDueMS, nowMS),
		ExpandAtMS: nowMS + time.Hour.Milliseconds(),
	}
}

// planAt plans fires at the given instants in the given bucket, and then no more.
func planAt(bucket int32, dues ...int64) store.Planner {
	return func(t *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
		for _, due := range dues {
			p.Fires = append(p.Fires, timer.Fire{
				FireID: timer.FireID{
					Timer: t.ID,
					DueMS: due,
				},
				RunAtMS: due,
				Bucket:  bucket,
				AppID:   t.AppID,
				Version: t.Version,
				Epoch:   t.ActiveEpoch,
			})
		}
		return p
	}
}

// newTimer returns a request for a timer with a name of its own.
func (s *setup) newTimer() store.NewTimer {
	return store.NewTimer{
		App:        "app",
		Name:       fmt.Sprintf("t%d", s.seq.Add(1)),
		Definition: definition("http://a"),
	}
}

// create creates a timer, which must succeed.
func (s *setup) create(n store.NewTimer, plan store.Planner) store.CreateResult {
	s.t.Helper()
	out, err := s.st().Create(s.t.Context(), []store.NewTimer{n}, plan)
	require.NoError(s.t, err)
	require.Len(s.t, out, 1)
	require.NoError(s.t, out[0].Err)
	return out[0]
}

// fires creates n open fires of different timers, at one instant in bucket 0.
func (s *setup) fires(n int, due int64) []timer.Fire {
	s.t.Helper()
	var fires []timer.Fire
	for n > 0 {
		var items []store.NewTimer
		for range min(n, store.MaxBatch) {
			t := s.newTimer()
			t.Activate = true
			items = append(items, t)
		}
		n -= len(items)
		out, err := s.st().Create(s.t.Context(), items, planAt(0, due))
		require.NoError(s.t, err)
		for _, c := range out {
			require.NoError(s.t, c.Err)
			require.Len(s.t, c.Fires, 1)
			fires = append(fires, c.Fires...)
		}
	}
	return fires
}

// claim claims fires for a session, on the first store.
func (s *setup) claim(session timer.ID, fires []timer.Fire) []timer.Fire {
	s.t.Helper()
	won, err := s.st().Claim(s.t.Context(), session, fires)
	require.NoError(s.t, err)
	return won
}

func ids(fires []timer.Fire) []timer.FireID {
	out := make([]timer.FireID, len(fires))
	for i, f := range fires {
		out[i] = f.FireID
	}
	return out
}

// delivered is the outcome of a fire that was called.
func delivered(f timer.Fire, finishedMS int64) timer.Outcome {
	return timer.Outcome{
		Fire:       f,
		Kind:       timer.Delivered,
		FinishedMS: finishedMS,
		UntilMS:    f.DueMS,
		Count:      1,
		Attempts:   1,
		LatenessMS: 3,
		StatusCode: 200,
		DurationMS: 12,
	}
}

func attempt(f timer.Fire, n int32, startMS int64) timer.Attempt {
	return timer.Attempt{
		FireID:     f.FireID,
		N:          n,
		StartMS:    startMS,
		DurationMS: 12,
		StatusCode: 500,
		Error:      "no",
		Excerpt:    "väl",
	}
}

func requireCode(t *testing.T, want timer.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, timer.CodeOf(err), "%v", err)
}
