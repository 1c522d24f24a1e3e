// Adds to each page: the viewer's own time, charts, and keys. Pages work without it.
(function () {
  "use strict";

  // showTimes adds the viewer's own time to each instant whose zone differs from the viewer's.
  function showTimes(root) {
    root.querySelectorAll("time[datetime]").forEach(function (e) {
      var at = new Date(e.getAttribute("datetime"));
      if (e.dataset.shown || isNaN(at)) return;
      e.dataset.shown = "yes";
      var minutes = -at.getTimezoneOffset(), size = Math.abs(minutes);
      var offset = (minutes < 0 ? "-" : "+") + String(Math.floor(size / 60)).padStart(2, "0") +
        ":" + String(size % 60).padStart(2, "0");
      if (e.textContent.endsWith(offset)) return;
      var own = document.createElement("span");
      own.className = "here";
      own.textContent = at.toLocaleString(document.documentElement.lang) + " " +
        (Intl.DateTimeFormat().resolvedOptions().timeZone || "");
      (e.closest("a") || e).after(own);
    });
  }

  var charts = [];

  // clock has the formats of the axis of instants by the distance of its marks in seconds, with 24
  // hours in each language: the text, and the second line where the year, day or minute changes.
  var date = "{YYYY}-{MM}-{DD}", minute = "\n{HH}:{mm}";
  var clock = [
    [86400, date, null, null, null, null, null, null, 1],
    [60, "{HH}:{mm}", "\n" + date, null, "\n" + date, null, null, null, 1],
    [1, ":{ss}", "\n" + date + " {HH}:{mm}", null, "\n" + date + " {HH}:{mm}", null, minute, null, 1],
    [0.001, ":{ss}.{fff}", "\n" + date + " {HH}:{mm}", null, "\n" + date + " {HH}:{mm}", null, minute, null, 1],
  ];

  // zoneOf returns the zone of a chart's axis, which is that of the page's instants, or the viewer's if
  // the browser does not know it.
  function zoneOf(name) {
    try {
      return new Intl.DateTimeFormat("en", { timeZone: name || "UTC" }).resolvedOptions().timeZone;
    } catch {
      return Intl.DateTimeFormat().resolvedOptions().timeZone;
    }
  }

  // drawCharts draws each chart from its attributes: data-chart has columns of numbers, instants
  // first; data-labels, data-colors and data-unit describe the others.
  function drawCharts(root) {
    charts = charts.filter(function (c) {
      if (document.contains(c.root)) return true;
      c.destroy();
      return false;
    });
    var style = getComputedStyle(document.documentElement);
    var line = style.getPropertyValue("--line"), text = style.getPropertyValue("--fg");
    var axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    root.querySelectorAll("[data-chart]").forEach(function (e) {
      if (e.firstChild) return;
      var columns = JSON.parse(e.dataset.chart), colors = e.dataset.colors.split(" ");
      var bars = e.dataset.kind === "bars" && uPlot.paths.bars({ size: [0.8, 40] });
      var series = e.dataset.labels.split("|").map(function (label, i) {
        var color = style.getPropertyValue("--" + colors[i]);
        return {
          label: label, stroke: color, width: bars ? 1 : 2, fill: bars ? color : undefined,
          paths: bars || undefined, points: { show: !bars && columns[0].length < 100, size: 4 },
        };
      });
      var zone = zoneOf(e.dataset.zone);
      charts.push(new uPlot({
        width: e.clientWidth, height: 220,
        tzDate: function (seconds) { return uPlot.tzDate(new Date(seconds * 1000), zone); },
        axes: [Object.assign({ values: clock }, axis), Object.assign({ size: 60, label: e.dataset.unit }, axis)],
        scales: { y: { range: function (u, low, high) { return [0, Math.max(high, 1) * 1.1]; } } },
        series: [{ label: zone, value: date + " {HH}:{mm}:{ss}" }].concat(series),
      }, columns, e));
    });
  }

  // ticker has parts of the page read again, as long as somebody sees it.
  function ticker(name, seconds) {
    setInterval(function () {
      if (document.visibilityState === "visible") document.body.dispatchEvent(new Event(name));
    }, seconds * 1000);
  }

  // What repeats by itself is not asked for while nobody sees it.
  document.body.addEventListener("htmx:beforeRequest", function (e) {
    var repeats = e.detail.elt.matches('[hx-trigger^="every"]');
    if (repeats && document.visibilityState !== "visible") e.preventDefault();
  });

  // markErrors tells assistive technology which fields have an error.
  function markErrors(root) {
    root.querySelectorAll("[aria-describedby^=error-]").forEach(function (e) {
      var error = document.getElementById(e.getAttribute("aria-describedby"));
      e.setAttribute("aria-invalid", String(!!error && error.textContent.trim() !== ""));
    });
  }

  // enableFields disables the fields of the editor that belong to another kind of schedules than the
  // chosen one. A browser does not send those, and what they have comes back with their kind.
  var kinds = {
    "of-cron": ["cron"], "of-every": ["interval", "fixed_delay"], "of-at": ["at"], "of-delay": ["delay"],
  };
  function enableFields() {
    var kind = document.querySelector("#form-side [name=kind]");
    if (!kind) return;
    Object.keys(kinds).forEach(function (c) {
      document.querySelectorAll("#form-side ." + c + " [name]").forEach(function (field) {
        field.disabled = kinds[c].indexOf(kind.value) < 0;
      });
    });
  }

  function prepare(root) {
    markErrors(root);
    enableFields();
    showTimes(root);
    drawCharts(root);
  }

  window.addEventListener("resize", function () {
    charts.forEach(function (c) { c.setSize({ width: c.root.parentNode.clientWidth, height: 220 }); });
  });

  // The editor has two sides, a form and a YAML, and keeps the YAML of which both were made. A request
  // of #sides carries all three, the server merges them, and its answer has both sides. The answer to
  // what is no longer there is dropped: what was typed meanwhile asks again, in its turn.
  var sent = "", focused = "";
  function entered() {
    return new URLSearchParams(new FormData(document.getElementById("editor"))).toString();
  }
  function ofSides(e) {
    return !!e.detail.requestConfig && e.detail.requestConfig.elt.id === "sides";
  }
  document.addEventListener("input", function (e) {
    if (e.target.name === "kind") enableFields();
  });

  // What is more than the server takes is not sent: a browser would show the answer in place of what
  // was typed. A form has two characters for each end of a line, and names its button.
  function sayTooLarge() {
    var said = document.createElement("p"), box = document.createElement("div");
    said.textContent = document.getElementById("editor").dataset.tooLarge;
    box.className = "refused";
    box.setAttribute("role", "alert");
    box.append(said);
    document.getElementById("signed-out").replaceChildren(box);
  }
  function refuseTooLarge(e) {
    var limit = Number(document.getElementById("editor").dataset.limit);
    if (entered().replace(/%0A/g, "%0D%0A").length + 20 <= limit) return false;
    e.preventDefault();
    sayTooLarge();
    return true;
  }
  document.addEventListener("submit", function (e) {
    if (e.target.id === "editor" && !e.defaultPrevented) refuseTooLarge(e);
  });
  document.body.addEventListener("htmx:beforeRequest", function (e) {
    if (e.detail.elt.closest("#editor") && refuseTooLarge(e)) return;
    if (ofSides(e)) sent = entered();
  });
  document.body.addEventListener("htmx:beforeSwap", function (e) {
    if (ofSides(e) && e.detail.target.id === "preview" && entered() !== sent) e.detail.shouldSwap = false;
  });

  // Without an answer the page goes on showing what it has, and says so until there is one. What the
  // editor has asked is asked again.
  var notice = document.getElementById("no-answer"), answer = new Date();
  function answered(yes) {
    if (yes) {
      answer = new Date();
      notice.textContent = "";
    } else if (!notice.textContent) {
      var time = answer.toLocaleTimeString(document.documentElement.lang, { hourCycle: "h23" });
      notice.textContent = notice.dataset.text.replace("%s", time);
    }
  }
  function unanswered(e) {
    answered(false);
    if (ofSides(e)) setTimeout(function () { e.detail.elt.dispatchEvent(new Event("sync")); }, 3000);
  }
  document.body.addEventListener("htmx:sendError", unanswered);
  document.body.addEventListener("htmx:timeout", unanswered);
  document.body.addEventListener("htmx:afterOnLoad", function (e) {
    var status = e.detail.xhr.status;
    if (status < 500) answered(true);
    else unanswered(e);
    // What a part shows is gone, or no longer for this viewer: the whole page says so.
    if (e.detail.requestConfig.verb === "get" && (status === 403 || status === 404)) location.reload();
    var out = document.getElementById("signed-out");
    if (out && e.detail.xhr.status === 413) sayTooLarge();
    if (out && e.detail.successful && !e.detail.xhr.getResponseHeader("Hx-Retarget")) out.textContent = "";
  });

  // A second click while the answer is awaited would do the same again: a form is sent once in ten
  // seconds, or again on a page that the browser has kept.
  document.addEventListener("submit", function (e) {
    var form = e.target;
    // form.method would be the field of this name, where the form has one.
    if (e.defaultPrevented || form.getAttribute("method") !== "post") return;
    if (form.dataset.sent) {
      e.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    setTimeout(function () { delete form.dataset.sent; }, 10000);
  });
  window.addEventListener("pageshow", function () {
    document.querySelectorAll("form[data-sent]").forEach(function (form) { delete form.dataset.sent; });
  });

  // names returns the fields of a side.
  function names(side) {
    return Array.from(side.querySelectorAll("[name]"), function (f) { return f.name; }).join(" ");
  }

  // adopt gives the fields of a side what an answer has for them. A field that has it already is left
  // alone: the cursor, and what can be undone there, stay.
  function adopt(side, answer) {
    answer.querySelectorAll("[name]").forEach(function (f) {
      var own = side.querySelector('[name="' + f.name + '"]');
      if (own.disabled || own.value === f.value) return;
      var cursor = own === document.activeElement && own.setSelectionRange ? own.selectionStart : null;
      if (own.tagName === "SELECT") own.innerHTML = f.innerHTML;
      own.value = f.value;
      if (cursor !== null) own.setSelectionRange(cursor, cursor);
      if (f.name === "kind") enableFields();
    });
    answer.querySelectorAll("[id^=error-], #yaml-error").forEach(function (f) {
      side.querySelector("#" + f.id).innerHTML = f.innerHTML;
    });
  }
  document.body.addEventListener("htmx:oobBeforeSwap", function (e) {
    var old = e.detail.target, answer = e.detail.fragment.firstElementChild;
    if (old.id === "base") { // htmx would give it its new value later than the sides
      old.value = answer.value;
      e.detail.shouldSwap = false;
    } else if (/^(form|yaml)-side$/.test(old.id)) {
      if (names(old) !== names(answer)) { // the form has no target, or has one again
        if (old.contains(document.activeElement)) focused = document.activeElement.name;
        return;
      }
      adopt(old, answer);
      e.detail.shouldSwap = false;
    }
  });
  document.body.addEventListener("htmx:afterSettle", function () {
    var field = focused && document.querySelector('#editor [name="' + focused + '"]');
    focused = "";
    if (field && field !== document.activeElement) field.focus();
  });

  // Where the system is dark already, the button of the theme of the system offers the light one.
  var theme = document.querySelector("button[data-light]");
  if (theme && window.matchMedia("(prefers-color-scheme: dark)").matches) {
    theme.value = "light";
    theme.textContent = theme.dataset.light;
  }

  // The browser asks before it leaves an editor with what nobody has saved.
  var edited = !!document.querySelector("#editor[data-unsaved]"), saving = false;
  document.addEventListener("input", function (e) {
    if (e.target.closest("#editor")) edited = true;
  });
  document.addEventListener("submit", function (e) {
    if (e.target.id === "editor" && !e.defaultPrevented) saving = true;
  });
  window.addEventListener("pageshow", function () { saving = false; });
  window.addEventListener("beforeunload", function (e) {
    if (edited && !saving) e.preventDefault();
  });

  function help() {
    document.getElementById("help").showModal();
  }

  // go opens a page of the app by its letter.
  function go(letter) {
    var link = letter === "a" ? document.querySelector(".brand")
      : document.querySelector('header a[data-key="' + CSS.escape(letter) + '"]');
    if (link) link.click();
  }

  // prefix is until when a letter after g opens a page: who has forgotten the g means the letter.
  var prefix = 0;
  document.addEventListener("keydown", function (e) {
    var field = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
    if (field || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    var chosen = e.timeStamp < prefix;
    prefix = 0;
    if (chosen) {
      go(e.key);
      return;
    }
    if (e.key === "/") {
      var search = document.querySelector("[data-search]");
      if (search) {
        e.preventDefault();
        search.focus();
      }
    } else if (e.key === "?") {
      help();
    } else if (e.key === "g") {
      prefix = e.timeStamp + 2000;
    } else if (/^[a-z]$/.test(e.key)) {
      var link = document.querySelector('main a[data-key="' + e.key + '"]');
      if (link) link.click();
    }
  });

  document.getElementById("help-button").addEventListener("click", help);
  document.body.addEventListener("htmx:afterSwap", function (e) {
    prepare(document);
    // The answer to the test call is below its button, perhaps out of sight.
    if (e.detail.target.id === "test-call") e.detail.target.scrollIntoView({ block: "nearest" });
  });
  prepare(document);
  ticker("live", 3);
  ticker("live-slow", 30);
})();
