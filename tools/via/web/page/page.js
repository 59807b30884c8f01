// SPDX-License-Identifier: BSD-3-Clause
// The page of `via web`: asks api/live twice a second while it is seen, and api/sim when something is chosen.
// Everything that comes from outside is put in as text, never as HTML.
'use strict';

const interval = 450;                 // milliseconds between two looks: at least two a second
const span = 60000;                   // what the live charts show
const colours = 8;                    // classes s0 to s7
const stageColours = ['#7fa3cc', '#f2a65a', '#7fbf77', '#ee8a88', '#8fcac5', '#edc948', '#c79bbb',
  '#bd9b88', '#c9b252', '#e29ab4', '#a0cbe8', '#9bd88c', '#ffc890', '#aaa09c'];

const papers = { A: 'MyVIA', C: 'mechanisms study', D: 'MNC', GM: 'Myricom' };

const byId = (id) => document.getElementById(id);

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === 'text') made.textContent = value;
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// ---- numbers ----------------------------------------------------------------------------------

const exact = new Intl.NumberFormat('en-US');

function short(value) {
  if (value === undefined || value === null || !isFinite(value)) return '-';
  const units = ['', ' k', ' M', ' G', ' T', ' P', ' E'];
  let unit = 0;
  let rest = Math.abs(value);
  while (rest >= 999.5 && unit < units.length - 1) { rest /= 1000; unit += 1; }
  const digits = unit === 0 ? (Number.isInteger(value) || rest >= 100 ? 0 : 1) : rest < 9.995 ? 2 : rest < 99.95 ? 1 : 0;
  return (value < 0 ? '-' : '') + rest.toFixed(digits) + units[unit];
}
const count = (value) => (value < 1e6 ? exact.format(value) : short(value));
const bytesText = (value) => short(value) + 'B';
const rateText = (value) => (value === undefined ? '' : value === 0 ? '0' : value < 10 ? value.toFixed(2) : value < 1000 ? value.toFixed(1) : exact.format(Math.round(value)));
const sizeText = (bytes) => (bytes >= 1048576 ? bytes / 1048576 + 'M' : bytes >= 1024 ? bytes / 1024 + 'k' : String(bytes));

function timeText(milliseconds) {
  const time = new Date(milliseconds);
  const two = (number) => String(number).padStart(2, '0');
  return two(time.getHours()) + ':' + two(time.getMinutes()) + ':' + two(time.getSeconds()) + '.' +
    String(time.getMilliseconds()).padStart(3, '0');
}

function durationText(seconds) {
  if (seconds < 60) return seconds + ' s';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min ' + (seconds % 60) + ' s';
  return Math.floor(seconds / 3600) + ' h ' + Math.floor((seconds % 3600) / 60) + ' min';
}

// ---- tables -----------------------------------------------------------------------------------

// Rows are kept by their keys and cells by their places, so that what is marked or focused stays.
function fillTable(id, columns, rows) {
  const table = byId(id);
  const head = table.tHead;
  const titles = columns.map((column) => column.title).join('|');
  if (head.dataset.titles !== titles) {
    head.dataset.titles = titles;
    head.replaceChildren(element('tr', {}, ...columns.map((column) =>
      element('th', { scope: 'col', class: column.word ? 'word' : undefined, text: column.title }))));
    table.tBodies[0].replaceChildren();
  }
  const body = table.tBodies[0];
  const kept = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  let place = 0;
  for (const row of rows) {
    let line = kept.get(row.key);
    if (!line) {
      line = element('tr', { 'data-key': row.key }, ...columns.map((column, index) =>
        element(index === 0 ? 'th' : 'td', { scope: index === 0 ? 'row' : undefined,
          class: column.word ? 'word' : undefined, 'data-name': column.name })));
    }
    kept.delete(row.key);
    if (body.rows[place] !== line) body.insertBefore(line, body.rows[place] || null);
    place += 1;
    for (const [name, value] of Object.entries(row.marks || {}))
      if (line.dataset[name] !== String(value)) line.dataset[name] = value;
    columns.forEach((column, index) => {
      const cell = line.cells[index];
      const value = column.value(row.data);
      if (column.draw) {
        column.draw(cell, value, row.data);
      } else {
        setText(cell, column.text ? column.text(value) : String(value));
      }
      if (typeof value === 'number' && cell.dataset.value !== String(value)) {
        cell.dataset.value = value;
        if (Number.isInteger(value)) cell.title = exact.format(value);
      }
    });
  }
  for (const line of kept.values()) line.remove();
}

const word = (title, name, value, more) => ({ title, name, value, word: true, ...more });
const number = (title, name, value, text) => ({ title, name, value, text: text || count });

// ---- charts -----------------------------------------------------------------------------------

function niceStep(most, lines) {
  const wanted = most / lines;
  const power = 10 ** Math.floor(Math.log10(wanted));
  for (const digit of [1, 2, 5]) if (digit * power >= wanted) return digit * power;
  return 10 * power;
}

// Marks of one kind that would lie on each other become one: "link0, link1 up".
function together(marks) {
  const groups = [];
  for (const mark of [...marks].sort((a, b) => a.time - b.time)) {
    const same = groups.find((group) => group.up === mark.up && mark.time - group.time < 1500);
    if (!same) groups.push({ time: mark.time, up: mark.up, names: [mark.name] });
    else if (!same.names.includes(mark.name)) same.names.push(mark.name);
  }
  return groups.map((group) => ({ ...group, text: group.names.join(', ') + (group.up ? ' up' : ' down') }));
}

// series: [{name, points: [[x, y]], colour}]; x and y by the scales. marks: [{time, name, up}].
function drawLive(svg, series, now, marks) {
  const width = Math.max(svg.clientWidth, 260);
  const height = Number(svg.getAttribute('height'));
  const left = 52, right = 8, top = 10, bottom = 24;
  svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
  let most = 0;
  for (const one of series) for (const point of one.points) most = Math.max(most, point[1]);
  const step = niceStep(most > 0 ? most * 1.05 : 1, 4);
  const high = Math.max(step * Math.ceil((most * 1.05) / step), step);
  const x = (time) => left + (width - left - right) * (1 - (now - time) / span);
  const y = (value) => height - bottom - (height - top - bottom) * (value / high);
  const parts = [];
  for (let line = 0; line <= high + step / 2; line += step) {
    parts.push(shape('line', { class: 'axis', x1: left, x2: width - right, y1: y(line), y2: y(line) }));
    parts.push(shape('text', { x: left - 6, y: y(line) + 4, 'text-anchor': 'end' }, high < 10 ? String(Number(line.toPrecision(3))) : short(line)));
  }
  const every = width < 480 ? 20 : 10;
  for (let seconds = 0; seconds <= span / 1000; seconds += every) {
    parts.push(shape('text', { x: Math.min(x(now - seconds * 1000), width - 2), y: height - 6,
      'text-anchor': seconds === 0 ? 'end' : seconds === span / 1000 ? 'start' : 'middle' },
    seconds === 0 ? 'now' : '-' + seconds + ' s'));
  }
  for (const one of series) {
    let path = '';
    let last = null;
    for (const [time, value] of one.points) {
      if (now - time > span) continue;
      path += (last === null || time - last > 3000 ? 'M' : 'L') + x(time).toFixed(1) + ' ' + y(value).toFixed(1);
      last = time;
    }
    if (path) parts.push(shape('path', { class: 'curve s' + one.colour, d: path }));
  }
  const taken = [0, 0];
  for (const mark of together(marks)) {
    if (now - mark.time > span || mark.time > now + 1000) continue;
    parts.push(shape('line', { class: 'mark' + (mark.up ? ' up' : ''), x1: x(mark.time), x2: x(mark.time), y1: top, y2: height - bottom }));
    // A word that would lie on the one before is left out; the list below has them all.
    const place = x(mark.time), wide = 7 * mark.text.length, near = place > width - wide - 8;
    const from = near ? place - 4 - wide : place + 4;
    if (from < taken[mark.up ? 1 : 0]) continue;
    taken[mark.up ? 1 : 0] = from + wide;
    parts.push(shape('text', { class: 'mark-text' + (mark.up ? ' up' : ''), x: near ? place - 4 : place + 4, y: top + (mark.up ? 24 : 10),
      'text-anchor': near ? 'end' : 'start' }, mark.text));
  }
  svg.replaceChildren(...parts);
}

function fillLegend(list, entries) {
  const text = JSON.stringify(entries);
  if (list.dataset.entries === text) return;
  list.dataset.entries = text;
  list.replaceChildren(...entries.map((entry) => element('li', {},
    element('i', { class: 's' + entry.colour, 'aria-hidden': 'true' }),
    element(entry.chosen ? 'b' : 'span', { text: entry.name }))));
}

// ---- the live part ----------------------------------------------------------------------------

const live = { answer: null, history: [], colourOf: new Map(), paused: false, failures: 0, timer: 0, asking: false };

function colourFor(name) {
  if (!live.colourOf.has(name)) live.colourOf.set(name, live.colourOf.size % colours);
  return live.colourOf.get(name);
}

const severalHosts = (answer) => answer.hosts.length > 1;
const hostText = (host) => host.name || 'this host';

function eachProcess(answer, visit) {
  for (const host of answer.hosts)
    for (const process of host.processes)
      if (!process.problem) visit(host, process);
}

const deviceName = (answer, host, device) => (device || '?') + (host.name ? ' of ' + host.name : '');

function gather(answer) {
  const devices = new Map();
  eachProcess(answer, (host, process) => {
    for (const [device, one] of Object.entries(process.devices)) {
      const name = deviceName(answer, host, device);
      const sum = devices.get(name) || { name, vis: 0, sent: 0, received: 0, bytes: 0, rdma: 0, mb: 0, messages: 0, received_per_s: 0 };
      sum.vis += one.vis;
      sum.sent += one.sent_messages;
      sum.received += one.received_messages;
      sum.bytes += one.sent_bytes;
      sum.rdma += one.rdma_bytes;
      if (one.rates) {
        sum.mb += one.rates.sent_mb_per_s + one.rates.rdma_mb_per_s;
        sum.messages += one.rates.sent_messages_per_s;
        sum.received_per_s += one.rates.received_messages_per_s;
      }
      devices.set(name, sum);
    }
  });
  return [...devices.values()].sort((a, b) => a.name.localeCompare(b.name));
}

const linkKey = (host, process, connection, link, place) =>
  [host.name, process.pid, connection.vi, place, link.link].join('/');

function remember(answer, devices) {
  const moment = { time: answer.unix_ms, devices: {}, links: {} };
  for (const device of devices) moment.devices[device.name] = { mb: device.mb, messages: device.messages };
  eachProcess(answer, (host, process) => {
    for (const connection of process.connections)
      connection.links.forEach((link, place) => {
        moment.links[linkKey(host, process, connection, link, place)] =
          ((link.sent_bytes_per_s || 0) + (link.received_bytes_per_s || 0)) / 1e6;
      });
  });
  const last = live.history[live.history.length - 1];
  if (last && last.time === moment.time) return;
  live.history.push(moment);
  while (live.history.length > 0 && moment.time - live.history[0].time > span + 2000) live.history.shift();
}

function showOverview(answer, devices) {
  let processes = 0, vis = 0, errors = 0;
  eachProcess(answer, (host, process) => {
    processes += 1;
    for (const device of Object.values(process.devices)) vis += device.vis;
    for (const error of process.errors) errors += error.count;
  });
  let links = 0, up = 0;
  eachProcess(answer, (host, process) => {
    for (const connection of process.connections)
      for (const link of connection.links) { links += 1; if (link.state === 'up') up += 1; }
  });
  const mb = devices.reduce((sum, device) => sum + device.mb, 0);
  const messages = devices.reduce((sum, device) => sum + device.messages, 0);
  setText(byId('box-programs'), String(processes));
  setText(byId('box-programs-note'), errors > 0 ? errors + ' errors recorded' : processes === 1 ? 'process uses Viaduct' : 'processes use Viaduct');
  setText(byId('box-vis'), vis + (vis === 1 ? ' VI' : ' VIs'));
  setText(byId('box-rate'), rateText(mb) + ' MB/s');
  setText(byId('box-rate-note'), short(messages) + ' messages/s over ' +
    (devices.map((device) => device.name).join(', ') || 'shm0 inside a host, net0 between hosts'));
  setText(byId('box-links'), links === 0 ? 'none' : up + ' of ' + links + ' up');
  byId('box-links-box').dataset.state = up < links ? 'bad' : 'good';
  const running = answer.hosts.filter((host) => host.agent.running).length;
  setText(byId('box-agent'), answer.hosts.length === 1 ? (running ? 'running' : 'not running') : running + ' of ' + answer.hosts.length + ' hosts');
  byId('nobody').hidden = processes > 0;
}

function showLiveChart(devices) {
  const unit = byId('live-unit').value;
  const now = live.answer.unix_ms;
  const names = new Set();
  for (const moment of live.history) for (const name of Object.keys(moment.devices)) names.add(name);
  const series = [...names].sort().map((name) => ({ name, colour: colourFor(name),
    points: live.history.filter((moment) => moment.devices[name]).map((moment) => [moment.time, moment.devices[name][unit]]) }));
  drawLive(byId('live-chart'), series, now, []);
  fillLegend(byId('live-legend'), series.map((one) => ({ name: one.name, colour: one.colour })));
  setText(byId('live-text'), devices.length === 0 ? 'No VI is open now.' : 'Now: ' + devices.map((device) =>
    device.name + ' ' + rateText(device.mb) + ' MB/s, ' + short(device.messages) + ' messages/s').join('; ') + '. RDMA is part of MB/s.');
}

function showTraffic(answer, devices) {
  fillTable('devices', [
    word('Device', 'device', (d) => d.name),
    number('VIs', 'vis', (d) => d.vis),
    number('MB/s', 'sent_mb_per_s', (d) => d.mb, rateText),
    number('sent/s', 'sent_messages_per_s', (d) => d.messages, short),
    number('received/s', 'received_messages_per_s', (d) => d.received_per_s, short),
    number('sent', 'sent_messages', (d) => d.sent),
    number('received', 'received_messages', (d) => d.received),
    number('bytes', 'sent_bytes', (d) => d.bytes, bytesText),
  ], devices.map((device) => ({ key: device.name, data: device, marks: { device: device.name } })));

  const meanings = { inline: 'in a cache line of the queue', ring: 'through the byte ring', kmem: 'into mapped memory of the peer',
    cma: 'copied by the kernel, once', stream: 'over several links', packet: 'in one packet' };
  const paths = new Map();
  eachProcess(answer, (host, process) => {
    for (const [path, sent] of Object.entries(process.totals.sent_by_path)) {
      const sum = paths.get(path) || { path, sent: 0, received: 0, rate: 0 };
      sum.sent += sent;
      sum.received += process.totals.received_by_path[path];
      if (process.rates) sum.rate += process.rates.sent_by_path_per_s[path];
      paths.set(path, sum);
    }
  });
  fillTable('paths', [
    word('Way', 'path', (p) => p.path),
    number('sent/s', 'sent_per_s', (p) => p.rate, short),
    number('sent', 'sent', (p) => p.sent),
    number('received', 'received', (p) => p.received),
    word('', 'meaning', (p) => meanings[p.path] || ''),
  ], [...paths.values()].map((path) => ({ key: path.path, data: path, marks: { path: path.path } })));

  const protocols = new Map();
  let sizes = [];
  eachProcess(answer, (host, process) => {
    if (!process.messages) return;
    for (const [protocol, counts] of Object.entries(process.messages.sent_by_protocol_and_size)) {
      const order = ['0', '1-64', '65-512', '-4k', '-32k', '-256k', '-2m', 'more'];
      sizes = Object.keys(counts).sort((a, b) => order.indexOf(a) - order.indexOf(b));
      const sum = protocols.get(protocol) || { protocol, counts: {} };
      for (const size of sizes) sum.counts[size] = (sum.counts[size] || 0) + counts[size];
      protocols.set(protocol, sum);
    }
  });
  byId('protocols').parentElement.hidden = protocols.size === 0;
  byId('protocols-none').hidden = protocols.size > 0;
  if (protocols.size > 0) {
    let most = 1;
    for (const protocol of protocols.values()) for (const size of sizes) most = Math.max(most, protocol.counts[size]);
    fillTable('protocols', [word('Protocol', 'protocol', (p) => p.protocol),
      ...sizes.map((size) => ({ title: size.startsWith('-') ? 'to ' + size.slice(1) : size === 'more' ? 'above 2m' : size, name: size,
        value: (p) => p.counts[size],
        draw: (cell, value) => {
          setText(cell, value === 0 ? '' : count(value));
          const strength = value === 0 ? 0 : 0.08 + 0.42 * (Math.log(value + 1) / Math.log(most + 1));
          cell.style.backgroundColor = 'rgba(var(--heat), ' + strength.toFixed(2) + ')';
        } }))],
    [...protocols.values()].map((protocol) => ({ key: protocol.protocol, data: protocol, marks: { protocol: protocol.protocol } })));
  }

  const rows = [];
  const vis = [];
  const errors = [];
  for (const host of answer.hosts)
    for (const process of host.processes) {
      const key = host.name + '/' + process.pid;
      if (process.problem) {
        errors.push('process ' + process.pid + ' ' + process.program + ': ' + process.problem);
        continue;
      }
      rows.push({ key, data: { host, process, totals: process.totals, rates: process.rates || {} }, marks: { pid: process.pid, host: host.name } });
      for (const vi of process.vis)
        vis.push({ key: key + '/' + vi.slot, data: { host, process, vi, rates: vi.rates || {} }, marks: { pid: process.pid, vi: vi.slot } });
      for (const error of process.errors)
        errors.push('process ' + process.pid + ' ' + process.program + ': ' + error.text + ' (' + error.count + ' times, last at ' + timeText(error.last_unix_ns / 1e6) + ')');
    }
  const hostColumn = severalHosts(answer) ? [word('Host', 'host', (d) => hostText(d.host))] : [];
  fillTable('processes', [
    number('PID', 'pid', (d) => d.process.pid, String),
    word('Program', 'program', (d) => d.process.program),
    ...hostColumn,
    number('MB/s out', 'sent_mb_per_s', (d) => d.rates.sent_mb_per_s, rateText),
    number('MB/s in', 'received_mb_per_s', (d) => d.rates.received_mb_per_s, rateText),
    number('RDMA MB/s', 'rdma_mb_per_s', (d) => d.rates.rdma_mb_per_s, rateText),
    number('sent/s', 'sent_messages_per_s', (d) => d.rates.sent_messages_per_s, short),
    number('received/s', 'received_messages_per_s', (d) => d.rates.received_messages_per_s, short),
    number('sent', 'sent_messages', (d) => d.totals.sent_messages),
    number('received', 'received_messages', (d) => d.totals.received_messages),
    number('bytes out', 'sent_bytes', (d) => d.totals.sent_bytes, bytesText),
    number('bytes in', 'received_bytes', (d) => d.totals.received_bytes, bytesText),
    number('mean size', 'mean', (d) => (d.totals.sent_messages ? Math.round(d.totals.sent_bytes / d.totals.sent_messages) : 0), (v) => bytesText(v)),
    number('errors', 'errors', (d) => d.process.errors.reduce((sum, error) => sum + error.count, 0)),
  ], rows);
  if (byId('vis-details').open)
    fillTable('vis', [
      number('PID', 'pid', (d) => d.process.pid, String),
      ...hostColumn,
      number('VI', 'slot', (d) => d.vi.slot),
      word('Device', 'device', (d) => d.vi.device),
      word('State', 'state', (d) => d.vi.state),
      word('Reliability', 'reliability', (d) => d.vi.reliability),
      number('Peer', 'peer_pid', (d) => d.vi.peer_pid, (v) => (v === 0 ? '-' : String(v))),
      number('MB/s out', 'sent_mb_per_s', (d) => d.rates.sent_mb_per_s, rateText),
      number('sent', 'sent_messages', (d) => d.vi.sent_messages),
      number('received', 'received_messages', (d) => d.vi.received_messages),
      number('stalls', 'send_stalls', (d) => d.vi.send_stalls),
      number('failed', 'completed_in_error', (d) => d.vi.completed_in_error),
    ], vis);
  byId('errors-card').hidden = errors.length === 0;
  const list = byId('errors');
  const text = errors.join('\n');
  if (list.dataset.text !== text) {
    list.dataset.text = text;
    list.replaceChildren(...errors.map((one) => element('li', { text: one })));
  }
}

function drawState(cell, value) {
  let badge = cell.firstElementChild;
  if (!badge) {
    badge = element('span', { class: 'state' });
    cell.append(badge);
  }
  if (badge.dataset.state !== value) badge.dataset.state = value;
  setText(badge, value);
}

function drawShare(cell, value) {
  if (!cell.firstElementChild) {
    cell.append(element('span', { class: 'meter', 'aria-hidden': 'true' }, element('i')), element('span'));
  }
  cell.firstElementChild.firstElementChild.style.width = (value * 100).toFixed(1) + '%';
  setText(cell.lastElementChild, (value * 100).toFixed(1) + ' %');
}

function showLinks(answer) {
  const place = byId('connections');
  const kept = new Map([...place.children].map((card) => [card.dataset.key, card]));
  const changes = [];
  let any = false;
  eachProcess(answer, (host, process) => {
    for (const change of process.changes) changes.push({ ...change, host, process });
    for (const connection of process.connections) {
      any = true;
      const carried = connection.links.reduce((sum, link) => sum + link.sent_bytes + link.received_bytes, 0);
      const key = [host.name, process.pid, connection.vi].join('-');
      const id = 'links-of-' + key;
      let card = kept.get(key);
      if (!card) {
        card = element('div', { class: 'card connection', 'data-key': key },
          element('h3', { id: id + '-title' }),
          element('figure', {},
            element('ul', { class: 'legend' }),
            element('figcaption', { class: 'note', text: 'MB/s in both directions over the last minute; a mark is a link that changed its state.' })),
          element('div', { class: 'scroll', role: 'region', 'aria-labelledby': id + '-title', tabindex: '0' },
            element('table', { id }, element('caption', { text: 'Links now' }), element('thead'), element('tbody'))));
        const svg = shape('svg', { role: 'img', height: 150, 'aria-labelledby': id + '-title' });
        card.querySelector('figure').prepend(svg);
        place.append(card);
      }
      kept.delete(key);
      card.carried = carried;
      setText(card.querySelector('h3'), (severalHosts(answer) ? 'Host ' + hostText(host) + ': ' : '') + process.program + ' (' + process.pid + '), VI ' +
        connection.vi + (connection.device ? ' on ' + connection.device : '') + (connection.policy ? ', policy ' + connection.policy : ''));
      fillTable(id, [
        word('Link', 'link', (l) => l.link),
        word('State', 'state', (l) => l.state, { draw: drawState }),
        number('MB/s out', 'sent_mb_per_s', (l) => (l.sent_bytes_per_s === undefined ? undefined : l.sent_bytes_per_s / 1e6), rateText),
        number('MB/s in', 'received_mb_per_s', (l) => (l.received_bytes_per_s === undefined ? undefined : l.received_bytes_per_s / 1e6), rateText),
        { title: 'share', name: 'share', value: (l) => l.share, draw: drawShare },
        number('round trip \u00b5s', 'round_trip_us', (l) => l.round_trip_us, (v) => (v ? v.toFixed(1) : '-')),
        number('lost %', 'lost_share', (l) => l.lost_share, (v) => (v * 100).toFixed(2)),
        number('timeouts', 'timeouts', (l) => l.timeouts),
        number('window', 'window_bytes', (l) => l.window_bytes, bytesText),
        number('in flight', 'bytes_in_flight', (l) => l.bytes_in_flight, bytesText),
        number('can MB/s', 'measured_mb_per_s', (l) => l.measured_bytes_per_s / 1e6, rateText),
        number('changes', 'changes', (l) => l.changes),
      ], connection.links.map((link, index) => ({ key: index + link.link, data: link, marks: { state: link.state, link: link.link } })));
      const series = connection.links.map((link, index) => {
        const name = linkKey(host, process, connection, link, index);
        return { name: link.link, colour: index % colours,
          points: live.history.filter((moment) => moment.links[name] !== undefined).map((moment) => [moment.time, moment.links[name]]) };
      });
      const marks = process.changes.filter((change) => change.vi === connection.vi && (change.to === 'down' || (change.to === 'up' && change.from !== 'suspect')))
        .map((change) => ({ time: change.unix_ns / 1e6, up: change.to === 'up', name: change.link.split(' ')[0] }));
      drawLive(card.querySelector('svg'), series, answer.unix_ms, marks);
      fillLegend(card.querySelector('.legend'), series.map((one) => ({ name: one.name, colour: one.colour })));
    }
  });
  for (const card of kept.values()) card.remove();
  // Those that carry much more come first; a card is only moved when it must be.
  const rank = (card) => -Math.floor(Math.log10(card.carried + 1));
  [...place.children].sort((a, b) => rank(a) - rank(b) || a.dataset.key.localeCompare(b.dataset.key)).forEach((card, index) => {
    if (place.children[index] !== card) place.insertBefore(card, place.children[index]);
  });
  byId('links-none').hidden = any;
  changes.sort((a, b) => b.unix_ns - a.unix_ns);
  byId('changes-card').hidden = changes.length === 0;
  const shown = changes.slice(0, 20);
  const text = shown.map((change) => change.unix_ns + change.link + change.to).join();
  const list = byId('changes');
  if (list.dataset.text !== text) {
    list.dataset.text = text;
    list.replaceChildren(...shown.map((change) => element('li', { 'data-to': change.to,
      text: timeText(change.unix_ns / 1e6) + '  ' + (severalHosts(answer) ? 'host ' + hostText(change.host) + ', ' : '') + 'process ' + change.process.pid +
        ', VI ' + change.vi + ': ' + change.link + ' ' + change.from + ' \u2192 ' + change.to +
        (change.to === 'down' ? ' (the others take over)' : '') })));
  }
}

function showQueues(answer) {
  const rows = [];
  const messages = [];
  eachProcess(answer, (host, process) => {
    const row = { key: host.name + '/' + process.pid, data: { host, process, totals: process.totals, rates: process.rates || {}, messages: process.messages }, marks: { pid: process.pid } };
    rows.push(row);
    if (process.messages) messages.push(row);
  });
  const first = [number('PID', 'pid', (d) => d.process.pid, String), word('Program', 'program', (d) => d.process.program),
    ...(severalHosts(answer) ? [word('Host', 'host', (d) => hostText(d.host))] : [])];
  fillTable('rings', [...first,
    number('stalls', 'send_stalls', (d) => d.totals.send_stalls),
    number('stalls/s', 'stalls_per_s', (d) => d.rates.stalls_per_s, short),
    number('big ring posts', 'big_ring_posts', (d) => d.totals.big_ring_posts),
    number('refills', 'big_ring_refills', (d) => d.totals.big_ring_refills),
    number('sleeps', 'sleeps', (d) => d.totals.sleeps),
    number('sleeps/s', 'sleeps_per_s', (d) => d.rates.sleeps_per_s, short),
    number('wakes sent', 'wakes_sent', (d) => d.totals.wakes_sent),
    number('failed', 'completed_in_error', (d) => d.totals.completed_in_error),
  ], rows);
  byId('credits').parentElement.hidden = messages.length === 0;
  byId('credits-none').hidden = messages.length > 0;
  fillTable('credits', [...first,
    number('least credits', 'least_credits', (d) => d.messages.least_credits, (v) => (v === null ? '-' : count(v))),
    number('waited for credits', 'credit_stalls', (d) => d.messages.credit_stalls),
    number('noops sent', 'noops_sent', (d) => d.messages.noops_sent),
    number('unexpected now', 'unexpected_now', (d) => d.messages.unexpected_now),
    number('unexpected', 'unexpected', (d) => d.messages.unexpected),
    number('vbufs in use', 'vbufs_in_use', (d) => d.messages.vbufs_in_use),
    number('registered', 'registered_bytes', (d) => d.messages.registration_cache.bytes, bytesText),
    number('hits', 'registration_hits', (d) => d.messages.registration_cache.hits),
    number('misses', 'registration_misses', (d) => d.messages.registration_cache.misses),
    number('copied', 'copied_bytes', (d) => d.messages.copied_bytes, bytesText),
  ], messages);
}

function showAgents(answer) {
  const place = byId('agents');
  while (place.children.length > answer.hosts.length) place.lastElementChild.remove();
  const attached = [];
  answer.hosts.forEach((host, index) => {
    let card = place.children[index];
    if (!card) {
      card = element('div', { class: 'card agent' },
        element('div', { class: 'card-head' }, element('h3'), element('span', { class: 'state' })), element('dl', { class: 'facts' }));
      place.append(card);
    }
    const agent = host.agent;
    setText(card.querySelector('h3'), 'viad on ' + hostText(host));
    const badge = card.querySelector('.state');
    badge.dataset.state = agent.running ? 'running' : 'none';
    setText(badge, agent.running ? 'running' : host.problem ? 'not known' : 'not running');
    const facts = !agent.running ? [['Why', host.problem || 'Nobody has needed it; the first program that uses Viaduct starts it.']] : [
      ['Process', String(agent.pid)], ['Version', agent.version], ['Runs for', durationText(agent.uptime_seconds)],
      ['Ends', agent.on_demand ? 'after ' + agent.idle_seconds_limit + ' s without clients' : 'when it is stopped'],
      ['Other hosts', agent.net_problem ? 'not reachable: ' + agent.net_problem : 'UDP port ' + agent.net_port],
      ['Cluster', agent.net_key ? 'has a key' : 'open, no key'], ['kmem', agent.huge_pages ? 'huge pages' : 'ordinary pages'],
      ['Socket', agent.socket]];
    const list = card.querySelector('dl');
    const text = JSON.stringify(facts);
    if (list.dataset.text !== text) {
      list.dataset.text = text;
      list.replaceChildren(...facts.map(([name, value]) => element('div', {}, element('dt', { text: name }), element('dd', { text: value }))));
    }
    for (const process of agent.processes || [])
      attached.push({ key: host.name + '/' + process.pid, data: { host, process }, marks: { pid: process.pid } });
  });
  fillTable('attached', [
    number('PID', 'pid', (d) => d.process.pid, String), word('Program', 'program', (d) => d.process.program),
    ...(severalHosts(answer) ? [word('Host', 'host', (d) => hostText(d.host))] : []),
    number('since', 'attached_seconds', (d) => d.process.attached_seconds, durationText),
    number('VIs', 'vis', (d) => d.process.vis), number('connected', 'connections', (d) => d.process.connections),
    number('waiting', 'waiting', (d) => d.process.waiting), number('regions', 'regions', (d) => d.process.regions),
    number('registered', 'registered_bytes', (d) => d.process.registered_bytes, bytesText),
    number('kmem', 'kmem_bytes', (d) => d.process.kmem_bytes, bytesText),
  ], attached);
}

function showLive() {
  const answer = live.answer;
  if (!answer) return;
  const devices = gather(answer);
  remember(answer, devices);
  showOverview(answer, devices);
  showLiveChart(devices);
  showTraffic(answer, devices);
  showLinks(answer);
  showQueues(answer);
  showAgents(answer);
  document.body.dataset.looks = String(Number(document.body.dataset.looks || 0) + 1);
}

function say(state, text) {
  const pill = byId('status');
  pill.dataset.state = state;
  setText(pill, text);
}

function sayProblem(text) {
  const box = byId('problem');
  box.hidden = !text;
  setText(box, text || '');
}

async function askJson(path, patience) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), patience);
  try {
    const response = await fetch(path, { signal: stop.signal, cache: 'no-store' });
    const value = await response.json();
    if (!response.ok) {
      const failure = new Error(value.error || 'The server said ' + response.status + '.');
      failure.status = response.status;
      throw failure;
    }
    return value;
  } finally {
    clearTimeout(timer);
  }
}

async function look() {
  if (live.asking || live.paused || document.hidden) return;
  live.asking = true;
  const began = performance.now();
  let wait = interval;
  try {
    live.answer = await askJson('api/live', 5000);
    live.failures = 0;
    say('live', 'Live');
    sayProblem('');
    showLive();
  } catch (failure) {
    live.failures += 1;
    wait = Math.min(interval * 2 ** live.failures, 5000);
    say('gone', 'No connection');
    sayProblem(failure.status === 401 ? 'The token is no longer right: via web has been started anew. Open the address that it has printed.'
      : failure.status ? failure.message
        : 'via web does not answer. What is shown is old. Start it again if it has ended; this page keeps trying.');
  }
  live.asking = false;
  if (live.paused || document.hidden) return;
  live.timer = setTimeout(look, Math.max(wait - (performance.now() - began), 50));
}

function startLooking() {
  clearTimeout(live.timer);
  look();
}

// ---- the simulator ----------------------------------------------------------------------------

const sim = { catalogue: null, begun: false, turn: 0, result: null, playing: 0 };

function nicChosen() {
  return sim.catalogue.nics.find((nic) => nic.name === byId('sim-nic').value);
}
function firmwareChosen() {
  return nicChosen().firmware.find((firmware) => firmware.name === byId('sim-firmware').value);
}

function fillSelect(select, entries) {
  const before = select.value;
  select.replaceChildren(...entries.map((entry) => element('option', { value: entry.name, text: entry.label })));
  if (entries.some((entry) => entry.name === before)) select.value = before;
}

function aboutChoice() {
  const machine = sim.catalogue.machines.find((each) => each.name === byId('sim-machine').value);
  const firmware = firmwareChosen();
  setText(byId('sim-about'), machine.title + ' ' + nicChosen().title + ' ' + firmware.title + ': ' + firmware.meaning);
  byId('sim-messages').disabled = !firmware.stream;
  byId('sim-clock').disabled = !firmware.stream;
}

function chooseNic() {
  fillSelect(byId('sim-firmware'), nicChosen().firmware.map((firmware) => ({ name: firmware.name, label: firmware.title })));
  chooseFirmware();
}

function chooseFirmware() {
  byId('sim-machine').value = firmwareChosen().machine;
  byId('sim-clock').value = '';
  aboutChoice();
}

function simQuery(withSizes) {
  const query = new URLSearchParams();
  query.set('machine', byId('sim-machine').value);
  query.set('nic', byId('sim-nic').value);
  query.set('firmware', byId('sim-firmware').value);
  if (withSizes) query.set('bytes', byId('sim-bytes').value || '0');
  if (firmwareChosen().stream) {
    if (withSizes) query.set('messages', byId('sim-messages').value || '0');
    if (byId('sim-clock').value) query.set('clock', byId('sim-clock').value);
  }
  return query.toString();
}

async function runSimulation() {
  const turn = ++sim.turn;
  stopPlaying();
  byId('sim-error').hidden = true;
  setText(byId('sim-result'), 'Running\u2026');
  try {
    const result = await askJson('api/sim/run?' + simQuery(true), 30000);
    if (turn !== sim.turn) return;
    sim.result = result;
    showGantt();
    const curves = await askJson('api/sim/curves?' + simQuery(false), 60000);
    if (turn !== sim.turn) return;
    sim.curves = curves;
    showCurves();
  } catch (failure) {
    if (turn !== sim.turn) return;
    const box = byId('sim-error');
    setText(box, failure.status ? failure.message : 'via web does not answer, so nothing can be simulated now.');
    box.hidden = false;
    setText(byId('sim-result'), sim.result ? 'This is the run before.' : 'Nothing has been run yet.');
  }
}

const ganttLeft = 130, ganttTop = 8, ganttRow = 28, ganttBar = 20, ganttRight = 14;

function ganttScale() {
  const svg = byId('gantt');
  const width = Math.max(svg.clientWidth, 640);
  const total = Math.max(sim.result.total_us, 1e-6);
  return { width, total, x: (time) => ganttLeft + (width - ganttLeft - ganttRight) * (time / total) };
}

function showGantt() {
  const result = sim.result;
  const svg = byId('gantt');
  const lanes = result.resources.map((resource) => resource.resource);
  const stages = [...new Set(result.stages.map((stage) => stage.stage))];
  const { width, total, x } = ganttScale();
  const bottom = ganttTop + ganttRow * lanes.length;
  svg.setAttribute('height', bottom + 26);
  svg.setAttribute('viewBox', '0 0 ' + width + ' ' + (bottom + 26));
  const parts = [];
  const step = niceStep(total, width < 800 ? 6 : 10);
  for (let tick = 0; tick * step <= total; tick += 1) {
    parts.push(shape('line', { class: 'axis', x1: x(tick * step), x2: x(tick * step), y1: ganttTop, y2: bottom }));
    parts.push(shape('text', { x: x(tick * step), y: bottom + 17, 'text-anchor': 'middle' },
      Number((tick * step).toPrecision(6)) + (tick === 0 ? ' \u00b5s' : '')));
  }
  lanes.forEach((lane, index) => {
    const y = ganttTop + ganttRow * (index + 1);
    parts.push(shape('line', { class: 'axis', x1: ganttLeft, x2: width - ganttRight, y1: y, y2: y }));
    parts.push(shape('text', { class: 'lane-text', x: ganttLeft - 8, y: y - ganttRow / 2 + 4, 'text-anchor': 'end' }, lane));
  });
  for (const stage of result.stages) {
    const long = Math.max(x(stage.begin_us + stage.us) - x(stage.begin_us), 0.5);
    const y = ganttTop + ganttRow * lanes.indexOf(stage.resource) + (ganttRow - ganttBar) / 2;
    const bar = shape('rect', { class: 'gantt-bar', x: x(stage.begin_us).toFixed(2), y, width: long.toFixed(2), height: ganttBar, rx: Math.min(3, long / 2),
      fill: stageColours[stages.indexOf(stage.stage) % stageColours.length], opacity: stage.message % 2 === 0 ? 0.68 : 1 });
    bar.append(shape('title', {}, stage.resource + ': ' + stage.stage + (stage.message ? ', message ' + stage.message : '') + ', from ' +
      stage.begin_us.toFixed(3) + ' \u00b5s for ' + stage.us.toFixed(3) + ' \u00b5s'));
    parts.push(bar);
    if (stage.message && long > 9 * String(stage.message).length)
      parts.push(shape('text', { class: 'bar-text', x: x(stage.begin_us) + long / 2, y: y + ganttBar / 2 + 4, 'text-anchor': 'middle' }, stage.message));
  }
  parts.push(shape('line', { class: 'cursor', id: 'gantt-cursor', x1: x(0), x2: x(0), y1: ganttTop, y2: bottom }));
  svg.replaceChildren(...parts);
  svg.dataset.run = [result.machine, result.nic, result.firmware, result.bytes, result.messages].join(' ');
  byId('gantt-legend').replaceChildren(...stages.map((stage, index) => {
    const box = element('i', { 'aria-hidden': 'true' });
    box.style.backgroundColor = stageColours[index % stageColours.length];
    return element('li', {}, box, element('span', { text: stage }));
  }));
  setText(byId('gantt-title'), 'Pipeline: ' + result.title + ' on ' + result.nic + ' in ' + result.machine);
  setText(byId('sim-result'), result.messages + (result.messages === 1 ? ' message of ' : ' messages of ') + exact.format(result.bytes) + ' bytes in ' +
    total.toFixed(2) + ' \u00b5s: ' + result.mb_per_s.toFixed(1) + ' MB/s' + (result.one_way_us ? '; one way ' + result.one_way_us.toFixed(2) + ' \u00b5s' : ''));
  byId('gantt-time').hidden = false;
  byId('gantt-moment').value = 0;
  showMoment();
  fillTable('resources', [word('Part', 'resource', (r) => r.resource), word('Where', 'host', (r) => r.host),
    number('busy \u00b5s', 'busy_us', (r) => r.busy_us, (v) => v.toFixed(3)), number('busy %', 'busy', (r) => (100 * r.busy_us) / total, (v) => v.toFixed(0))],
  result.resources.map((resource) => ({ key: resource.resource, data: resource })));
  fillTable('stages', [word('Part', 'resource', (s) => s.resource), word('Stage', 'stage', (s) => s.stage),
    number('message', 'message', (s) => s.message, (v) => (v ? String(v) : '')), number('begins at \u00b5s', 'begin_us', (s) => s.begin_us, (v) => v.toFixed(3)),
    number('takes \u00b5s', 'us', (s) => s.us, (v) => v.toFixed(3))],
  result.stages.slice(0, 500).map((stage, index) => ({ key: String(index), data: stage })));
}

function showMoment() {
  if (!sim.result) return;
  const { total, x } = ganttScale();
  const moment = (byId('gantt-moment').value / 1000) * total;
  const cursor = byId('gantt-cursor');
  cursor.setAttribute('x1', x(moment));
  cursor.setAttribute('x2', x(moment));
  const busy = sim.result.stages.filter((stage) => stage.begin_us <= moment && moment < stage.begin_us + stage.us)
    .map((stage) => stage.resource + ': ' + stage.stage + (stage.message ? ' ' + stage.message : ''));
  setText(byId('gantt-now'), 'At ' + moment.toFixed(2) + ' \u00b5s: ' + (busy.join('; ') || 'nothing'));
}

function stopPlaying() {
  if (sim.playing) cancelAnimationFrame(sim.playing);
  sim.playing = 0;
  setText(byId('gantt-play'), 'Play');
}

function play() {
  if (sim.playing) { stopPlaying(); return; }
  const slider = byId('gantt-moment');
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  if (Number(slider.value) >= 1000) slider.value = 0;
  setText(byId('gantt-play'), 'Stop');
  const length = 8000;
  let begin = performance.now() - (slider.value / 1000) * length;
  let shown = 0;
  const step = (now) => {
    const part = Math.min((now - begin) / length, 1);
    // Who wants no motion gets steps.
    if (!calm || now - shown > 1000 || part === 1) {
      shown = now;
      slider.value = Math.round(part * 1000);
      showMoment();
    }
    if (part < 1) sim.playing = requestAnimationFrame(step);
    else stopPlaying();
  };
  sim.playing = requestAnimationFrame(step);
}

function drawCurves(svg, chart, chosen) {
  const width = Math.max(svg.clientWidth, 260);
  const height = Number(svg.getAttribute('height'));
  const left = 52, right = 14, top = 22, bottom = 36;
  svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
  const all = chart.curves.flatMap((curve) => curve.points).concat(chart.paper.map((point) => [point.bytes, point.value]));
  const least = Math.min(...all.map((point) => point[0])), most = Math.max(...all.map((point) => point[0]));
  const low = Math.min(...all.map((point) => point[1])), high = Math.max(...all.map((point) => point[1]));
  // Times grow with sizes, so their ratios are what is seen; rates end at what the hardware can do.
  const logarithmic = chart.unit !== 'MB/s';
  const x = (bytes) => left + (width - left - right) * (Math.log(bytes / least) / Math.log(most / least));
  const step = niceStep(high, 5);
  const roof = logarithmic ? high * 1.2 : step * Math.ceil((high * 1.02) / step);
  const floor = logarithmic ? low / 1.2 : 0;
  const y = (value) => height - bottom - (height - top - bottom) *
    (logarithmic ? Math.log(value / floor) / Math.log(roof / floor) : value / roof);
  const parts = [];
  for (const band of chart.bands) {
    const box = shape('rect', { class: 'band', x: x(band.from), width: x(band.to) - x(band.from), y: top, height: height - top - bottom });
    box.append(shape('title', {}, band.figure + ': ' + band.from + ' to ' + band.to + ' bytes (' + (papers[band.paper] || band.paper) + ')'));
    parts.push(box);
  }
  const lines = [];
  if (logarithmic) {
    for (let power = Math.floor(Math.log10(floor)); power <= Math.ceil(Math.log10(roof)); power += 1)
      for (const digit of [1, 2, 5]) if (digit * 10 ** power >= floor && digit * 10 ** power <= roof) lines.push(digit * 10 ** power);
  } else {
    for (let line = 0; line <= roof + step / 2; line += step) lines.push(line);
  }
  for (const line of lines) {
    parts.push(shape('line', { class: 'axis', x1: left, x2: width - right, y1: y(line), y2: y(line) }));
    parts.push(shape('text', { x: left - 6, y: y(line) + 4, 'text-anchor': 'end' }, Number(line.toPrecision(4))));
  }
  parts.push(shape('text', { x: left - 6, y: 12, 'text-anchor': 'end' }, chart.unit));
  const every = width < 420 ? 3 : width < 640 ? 2 : 1;
  chart.curves[0].points.forEach(([bytes], index) => {
    if (index % every === 0) parts.push(shape('text', { x: x(bytes), y: height - 19, 'text-anchor': 'middle' }, sizeText(bytes)));
  });
  parts.push(shape('text', { x: width - right, y: height - 4, 'text-anchor': 'end' }, 'bytes'));
  chart.curves.forEach((curve, index) => {
    parts.push(shape('path', { class: 'curve s' + (index % colours) + (curve.firmware === chosen ? ' chosen' : ''),
      d: curve.points.map(([bytes, value], place) => (place ? 'L' : 'M') + x(bytes).toFixed(1) + ' ' + y(value).toFixed(1)).join('') }));
  });
  for (const point of chart.paper) {
    const index = chart.curves.findIndex((curve) => curve.firmware === point.firmware);
    const px = x(point.bytes), py = y(point.value);
    const mark = shape('path', { class: 'point paper-point s' + (index % colours), d: 'M' + px + ' ' + (py - 7) + 'l7 7l-7 7l-7 -7z' });
    mark.append(shape('title', {}, (papers[point.paper] || point.paper) + ', ' + point.figure + ': ' + point.text + ' ' + chart.unit));
    parts.push(mark);
  }
  svg.replaceChildren(...parts);
}

function modelAt(chart, point) {
  const curve = chart.curves.find((each) => each.firmware === point.firmware);
  const same = curve && curve.points.find(([bytes]) => bytes === point.bytes);
  return same ? same[1] : undefined;
}

function showCurves() {
  const { charts, firmware } = sim.curves;
  const place = byId('curves');
  const rows = [];
  place.replaceChildren(...charts.map((chart) => {
    const id = 'curve-' + chart.chart;
    const svg = shape('svg', { role: 'img', height: 280, 'aria-labelledby': id, 'data-chart': chart.chart });
    const legend = element('ul', { class: 'legend' });
    fillLegend(legend, chart.curves.map((curve, index) => ({ name: curve.title, colour: index % colours, chosen: curve.firmware === firmware })));
    if (chart.paper.length > 0) legend.append(element('li', { text: '\u25c7 printed in the paper' }));
    if (chart.bands.length > 0) legend.append(element('li', { text: 'shaded: ' + chart.bands.map((band) => band.figure.replace(/^[^:]*: /, '') + ', ' + band.from + ' to ' + band.to + ' bytes').join('; ') }));
    const table = element('table', { id: id + '-table' }, element('caption', { text: chart.title + ', ' + chart.unit }), element('thead'), element('tbody'));
    for (const point of chart.paper) rows.push({ key: point.figure, data: { ...point, unit: chart.unit, model: modelAt(chart, point) } });
    return element('div', { class: 'card' }, element('h3', { id, text: chart.title + ' over size' }),
      element('figure', {}, svg, legend, element('figcaption', { class: 'note', text: chart.paper.length > 0 ? 'Lines: the simulator. Diamonds: the paper.' : 'The papers print no number for this choice; other machines have some.' })),
      element('details', {}, element('summary', { text: 'The same as a table' }), element('div', { class: 'scroll', role: 'region', tabindex: '0', 'aria-label': chart.title }, table)));
  }));
  for (const chart of charts) {
    drawCurves(place.querySelector('svg[data-chart="' + chart.chart + '"]'), chart, firmware);
    fillTable('curve-' + chart.chart + '-table', [number('bytes', 'bytes', (d) => d[0][0]),
      ...chart.curves.map((curve, index) => number(curve.title, curve.firmware, (d) => d[index][1], (v) => v.toFixed(2)))],
    chart.curves[0].points.map((unused, index) => ({ key: String(index), data: chart.curves.map((curve) => curve.points[index]) })));
  }
  byId('paper-card').hidden = rows.length === 0;
  fillTable('paper', [word('Paper', 'paper', (r) => papers[r.paper] || r.paper), word('Figure', 'figure', (r) => r.figure), number('bytes', 'bytes', (r) => r.bytes),
    number("paper's", 'value', (r) => r.value, (v) => v), number('simulator', 'model', (r) => r.model, (v) => (v === undefined ? '-' : v.toPrecision(4))),
    word('Unit', 'unit', (r) => r.unit),
    number('difference', 'difference', (r) => (r.model === undefined ? undefined : (100 * (r.model - r.value)) / r.value), (v) => (v === undefined ? '' : (v >= 0 ? '+' : '') + v.toFixed(1) + ' %'))]
    .map((column) => (column.name === 'value' ? { ...column, draw: (cell, value, row) => setText(cell, row.text) } : column)), rows);
}

async function beginSimulator() {
  if (sim.begun) return;
  sim.begun = true;
  try {
    sim.catalogue = await askJson('api/sim/catalogue', 10000);
  } catch (failure) {
    sim.begun = false;
    return;
  }
  fillSelect(byId('sim-machine'), sim.catalogue.machines.map((machine) => ({ name: machine.name, label: machine.name })));
  fillSelect(byId('sim-nic'), sim.catalogue.nics.map((nic) => ({ name: nic.name, label: nic.name })));
  byId('sim-bytes').max = sim.catalogue.most_bytes;
  byId('sim-messages').max = sim.catalogue.most_messages;
  chooseNic();
  runSimulation();
}

// ---- everything else ---------------------------------------------------------------------------

const themes = ['system', 'light', 'dark'];
function showTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId('theme'), 'Theme: ' + (theme === 'system' ? 'as the system' : theme));
  byId('theme').dataset.theme = theme;
}

function keep(name, value) {
  try { localStorage.setItem(name, value); } catch { /* the browser keeps nothing; that is all */ }
}
function kept(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function redraw() {
  if (live.answer) showLiveChart(gather(live.answer));
  if (live.answer) showLinks(live.answer);
  if (sim.result) showGantt();
  if (sim.curves) showCurves();
}

function begin() {
  showTheme(themes.includes(kept('via-theme')) ? kept('via-theme') : 'system');
  byId('theme').addEventListener('click', () => {
    const next = themes[(themes.indexOf(byId('theme').dataset.theme) + 1) % themes.length];
    showTheme(next);
    keep('via-theme', next);
  });
  byId('pause').addEventListener('click', () => {
    live.paused = !live.paused;
    byId('pause').setAttribute('aria-pressed', String(live.paused));
    setText(byId('pause'), live.paused ? 'Go on' : 'Pause');
    if (live.paused) { clearTimeout(live.timer); say('paused', 'Paused'); } else startLooking();
  });
  document.addEventListener('visibilitychange', () => {
    clearTimeout(live.timer);
    if (!document.hidden) startLooking();
  });
  byId('live-unit').addEventListener('change', () => { if (live.answer) showLiveChart(gather(live.answer)); });
  byId('vis-details').addEventListener('toggle', () => { if (live.answer) showTraffic(live.answer, gather(live.answer)); });
  byId('sim-nic').addEventListener('change', () => { chooseNic(); runSimulation(); });
  byId('sim-firmware').addEventListener('change', () => { chooseFirmware(); runSimulation(); });
  byId('sim-machine').addEventListener('change', () => { aboutChoice(); runSimulation(); });
  byId('sim-form').addEventListener('submit', (event) => {
    event.preventDefault();
    if (sim.catalogue) runSimulation(); else beginSimulator();
  });
  byId('gantt-moment').addEventListener('input', () => { stopPlaying(); showMoment(); });
  byId('gantt-play').addEventListener('click', play);
  // The simulator begins when it is first seen: who only watches traffic pays nothing for it.
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    beginSimulator();
  }, { rootMargin: '200px' }).observe(byId('simulator'));
  let sized = 0;
  window.addEventListener('resize', () => { clearTimeout(sized); sized = setTimeout(redraw, 150); });
  askJson('api/version', 5000).then((answer) => setText(byId('version'), answer.version)).catch(() => {});
  startLooking();
}

begin();
